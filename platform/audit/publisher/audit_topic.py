"""The audit topic, made as it must be by whoever comes first, so that its first use never makes it like any other topic."""

from ...client.admin import CLUSTERS_OWN, create_topic
from ...client.connection.cluster import Cluster
from ...client.errors import UnknownTopic
from ...runtime.layout import AUDIT_TOPIC

CONFIG = {"retention.ms": "-1"}
"""The books live on: without them nobody could say any more what was lost."""


def see_to_audit_topic(cluster: Cluster, *, timeout_ms: int) -> None:
    """Return once the topic is there: one partition, so that reports have one order. Raises ClientError."""
    try:
        cluster.partitions(AUDIT_TOPIC)
    except UnknownTopic:
        create_topic(cluster, AUDIT_TOPIC, 1, CONFIG, replication_factor=CLUSTERS_OWN, timeout_ms=timeout_ms)
