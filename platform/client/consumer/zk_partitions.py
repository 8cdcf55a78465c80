"""Which partitions the subscribed topics have now: from ZooKeeper's topic registry, else from the cluster's own metadata.

Our broker registers topics in ZooKeeper, where a change is told at once. A real Kafka without that registry is asked, so that the
consumer runs on it unchanged; there a change is found at the next look. A topic that is nowhere does not exist yet.
"""

from collections.abc import Sequence

from ...coordination.topics import TopicRegistry
from ..connection.cluster import Cluster


class SubscribedPartitions:
    """The partitions of a fixed set of topics."""

    def __init__(self, registry: TopicRegistry, cluster: Cluster, topics: Sequence[str]) -> None:
        self._registry, self._cluster, self.topics = registry, cluster, tuple(topics)

    def read(self) -> dict[str, list[int]]:
        """Return topic -> sorted partitions of the topics that exist.

        Raises CoordinationError, ClientError: nothing is known then.
        """
        registered = self._registry.read_many(self.topics)
        found = {topic: sorted(info.partitions) for topic, info in registered.items()}
        missing = [topic for topic in self.topics if topic not in found]
        if missing and not registered:
            # Metadata for a topic by its name may create it; the list of all does not.
            existing = set(self._cluster.topics())
            self._cluster.refresh([topic for topic in missing if topic in existing])
            found.update({topic: self._cluster.partitions(topic) for topic in missing if topic in existing})
        return found
