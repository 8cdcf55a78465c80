"""Which consumer groups read a topic: those that have committed a position in it."""

from ..connection import control_plane
from ..connection.cluster import Cluster
from ..consumer import group_requests
from ..fetch.fetched import TopicPartition

LANE = "topic-readers"
MOST_GROUPS = 1_000


def groups_of(cluster: Cluster, topic: str) -> list[str]:
    """Return the consumer groups that have committed a position in the topic, sorted. Raises ClientError."""
    if topic not in cluster.topics():
        return []
    names = [TopicPartition(topic, partition) for partition in cluster.partitions(topic)]
    found = []
    for group in sorted(control_plane.ask_groups(cluster.brokers(lane=LANE)))[:MOST_GROUPS]:
        if group_requests.fetch_offsets(cluster.coordinator(group, lane=LANE), group, names):
            found.append(group)
    return found
