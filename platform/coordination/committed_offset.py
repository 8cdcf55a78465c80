"""The content of an offset node: the next offset of a group, and the notes of a Kafka client. Pure.

    1234                                                  the paper's form: the next offset, decimal
    1234 {"leader_epoch":3,"metadata":"host-7"}           with notes, when a client sent some

Offset and notes share a node, so they change together. The offset comes first, for people and for simple readers.
"""

from typing import NamedTuple

from .errors import UnreadableNode
from .values import decimal, json_bytes, read_decimal, read_json


class CommittedOffset(NamedTuple):
    """A committed position."""

    offset: int
    """The next offset to read."""
    leader_epoch: int = -1
    """-1: not given."""
    metadata: str = ""

    def to_bytes(self) -> bytes:
        """Return the node's bytes. Raises ValueError for an offset below 0."""
        notes: dict[str, int | str] = {}
        if self.leader_epoch >= 0:
            notes["leader_epoch"] = self.leader_epoch
        if self.metadata:
            notes["metadata"] = self.metadata
        return decimal(self.offset) + (b" " + json_bytes(notes) if notes else b"")

    @classmethod
    def read(cls, path: str, data: bytes) -> "CommittedOffset":
        """Return the position in a node's `data`. Raises UnreadableNode."""
        digits, _, notes = data.partition(b" ")
        offset = read_decimal(path, digits)
        if not notes:
            return cls(offset)
        values = read_json(path, notes)
        leader_epoch, metadata = values.get("leader_epoch", -1), values.get("metadata", "")
        if not isinstance(leader_epoch, int) or not isinstance(metadata, str):
            raise UnreadableNode(path, data, "a leader epoch (number) and metadata (text) are expected behind the offset")
        return cls(offset, leader_epoch, metadata)
