"""Which consumer groups read a topic: those that have committed a position in it."""

from ..connection import control_plane
from ..connection.cluster import Cluster
from ..fetch.fetched import TopicPartition
from . import many_groups

LANE = "topic-readers"
MOST_GROUPS = 1_000


def groups_of(cluster: Cluster, topic: str) -> list[str]:
    """Return the consumer groups that have committed a position in the topic, sorted. Raises ClientError."""
    if topic not in cluster.topics():
        return []
    names = [TopicPartition(topic, partition) for partition in cluster.partitions(topic)]
    groups = sorted(control_plane.ask_groups(cluster.brokers(lane=LANE)))[:MOST_GROUPS]
    found: list[str] = []
    for coordinator, mine in many_groups.by_coordinator(cluster, groups, lane=LANE).items():
        found += [group for group, offsets in many_groups.committed(coordinator, mine, names).items() if offsets]
    return sorted(found)
