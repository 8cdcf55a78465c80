"""Errors of a group that coordinates through ZooKeeper, besides those of ZooKeeper and of the brokers."""

from collections.abc import Sequence

from ..errors import ClientError


class RebalanceFailed(ClientError):
    """The consumer could not claim its partitions in time."""

    def __init__(self, group: str, consumer_id: str, waited_ms: int, last: str) -> None:
        self.group, self.consumer_id, self.waited_ms = group, consumer_id, waited_ms
        super().__init__(
            f"consumer {consumer_id!r} of group {group!r} could not take over its partitions within {waited_ms} ms: {last}; "
            "does another member hold them, in a call to its application that does not return? Restart that member, or this one"
        )


class GroupOfKafkaClients(ClientError):
    """The group has Kafka clients as members. They and this consumer would each read everything, and overwrite each other's
    commits.
    """

    def __init__(self, group: str, consumer_id: str, client_ids: Sequence[str]) -> None:
        self.group, self.consumer_id, self.client_ids = group, consumer_id, list(client_ids)
        named = ", ".join(map(repr, self.client_ids[:5])) + (", …" if len(self.client_ids) > 5 else "")
        super().__init__(
            f"consumer {consumer_id!r} cannot join group {group!r}: it has members that are Kafka clients ({named}), and the two "
            "kinds do not share partitions: give this consumer a group id of its own, or stop those first"
        )


class PartitionsLost(ClientError):
    """A commit after the session was lost. Another member may own the partitions by now; nothing was committed."""

    def __init__(self, group: str, consumer_id: str) -> None:
        self.group, self.consumer_id = group, consumer_id
        super().__init__(
            f"consumer {consumer_id!r} of group {group!r} lost its session: nothing committed; what was read since the last "
            "commit is delivered again to the partitions' next owner: drop it and continue iterating"
        )


class StreamMisused(ClientError):
    """The consumer was used in a way it cannot serve; the message says which."""
