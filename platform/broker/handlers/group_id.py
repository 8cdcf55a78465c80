"""Which group ids can be stored, and which of them this broker coordinates."""

from ...wire.errors import ErrorCode
from .broker import Broker

LONGEST = 249
"""Characters; Kafka has no bound."""


MOST_NAMED = 10_000
"""Groups that one request may name; further ones are refused."""


def is_usable(group: str) -> bool:
    """Return whether ZooKeeper can hold offsets under this group id."""
    return 0 < len(group) <= LONGEST


def refusal(broker: Broker, group: str) -> ErrorCode:
    """Return why this broker does not answer for the group; NONE when it does."""
    if not is_usable(group):
        return ErrorCode.INVALID_GROUP_ID
    return ErrorCode.NONE if broker.groups.is_ours(group) else ErrorCode.NOT_COORDINATOR
