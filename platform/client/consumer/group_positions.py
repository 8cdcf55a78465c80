"""How far each tier has reported to the audit, kept in the cluster itself: the committed offsets of a group without members.

What `coordination.AuditPositions` keeps in ZooKeeper. A cluster forgets the offsets of a group without members after
`offsets.retention.minutes` (Kafka: seven days after the last commit): the tier then reports again what it holds, which changes
nothing in the audit.
"""

from ..connection.cluster import Cluster
from ..fetch.fetched import TopicPartition
from . import group_requests

PREFIX = "headrace.reported."
LANE = "positions"


class GroupPositions:
    """Reads and moves the positions of any tier. Used by one thread at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self, tier: str, topic: str, partition: int) -> int | None:
        """Return the offset up to which the tier has reported (exclusive), or None when it never has. Raises ClientError."""
        name, group = TopicPartition(topic, partition), _group(tier)
        return group_requests.fetch_offsets(self._cluster.coordinator(group, lane=LANE), group, [name]).get(name)

    def write(self, tier: str, topic: str, partition: int, offset: int) -> None:
        """Move the position forward to `offset`; a higher position stays, unless another process moves it at this very moment.
        Raises ClientError, ValueError below 0.
        """
        if offset < 0:
            raise ValueError(f"position {offset} of {tier} in {topic}-{partition}")
        held = self.read(tier, topic, partition)
        if held is not None and held >= offset:
            return
        group = _group(tier)
        group_requests.commit_offsets(
            self._cluster.coordinator(group, lane=LANE), group, {TopicPartition(topic, partition): offset}
        )

    def partitions(self, tier: str, topic: str) -> list[int]:
        """Return the partitions of which the tier has reported, sorted. Raises ClientError."""
        group = _group(tier)
        names = [TopicPartition(topic, partition) for partition in self._cluster.partitions(topic)]
        found = group_requests.fetch_offsets(self._cluster.coordinator(group, lane=LANE), group, names)
        return sorted(name.partition for name in found)


def _group(tier: str) -> str:
    return PREFIX + tier.replace(":", ".")
