"""What can go wrong in a group that coordinates through ZooKeeper, beyond what ZooKeeper and the brokers themselves raise."""

from .errors import ClientError


class RebalanceFailed(ClientError):
    """The consumer could not get hold of its partitions in time."""

    def __init__(self, group: str, consumer_id: str, waited_ms: int, last: str) -> None:
        self.group, self.consumer_id, self.waited_ms = group, consumer_id, waited_ms
        super().__init__(
            f"consumer {consumer_id!r} of group {group!r} could not take over its partitions within {waited_ms} ms: {last}; "
            "does another member hold them, in a call to its application that does not return? Restart that member, or this one"
        )


class PartitionsLost(ClientError):
    """A commit after the session was lost: the partitions may be another's by now, nothing was committed."""

    def __init__(self, group: str, consumer_id: str) -> None:
        self.group, self.consumer_id = group, consumer_id
        super().__init__(
            f"consumer {consumer_id!r} of group {group!r} lost its session: nothing committed; what was read since the last "
            "commit is delivered again to whoever owns the partitions now: drop it and go on iterating"
        )


class StreamMisused(ClientError):
    """The consumer was used in a way it cannot serve; the message says which."""
