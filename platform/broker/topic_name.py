"""The rule for topic names as the broker's handlers call it; it stands in `wire.topic_name`, which clients ask as well."""

from ..wire.topic_name import LONGEST, fault_of

__all__ = ["LONGEST", "fault_of"]
