"""The partitions of the subscribed topics: from ZooKeeper's topic registry, else from the cluster's metadata.

Our broker registers topics in ZooKeeper, where a watch reports a change at once. A Kafka cluster without that registry is asked
for its metadata, so the consumer runs on it unchanged; there a change is found at the next check. A topic found in neither does
not exist yet.
"""

from collections.abc import Sequence
from uuid import UUID

from ...coordination.topics import TopicRegistry
from ..connection.cluster import Cluster


class SubscribedPartitions:
    """The partitions of a fixed set of topics."""

    def __init__(self, registry: TopicRegistry, cluster: Cluster, topics: Sequence[str]) -> None:
        self._registry, self._cluster, self.topics = registry, cluster, tuple(topics)
        self.topic_ids: dict[str, UUID] = {}
        """The ids of the topics that the last reading found, where they are registered: a topic created again has another one."""

    def read(self) -> dict[str, list[int]]:
        """Return topic → sorted partitions of the topics that exist.

        Raises CoordinationError or ClientError; then nothing is known.
        """
        registered = self._registry.read_many(self.topics)
        self.topic_ids = {topic: info.topic_id for topic, info in registered.items()}
        found = {topic: sorted(info.partitions) for topic, info in registered.items()}
        missing = [topic for topic in self.topics if topic not in found]
        if missing and not registered:
            # A Metadata request that names a topic may create it; the list of all topics does not.
            existing = set(self._cluster.topics())
            self._cluster.refresh([topic for topic in missing if topic in existing])
            found.update({topic: self._cluster.partitions(topic) for topic in missing if topic in existing})
        return found
