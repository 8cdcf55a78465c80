"""ZooKeeper's registries of topics and brokers, as dictionaries."""

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from headrace.coordination.brokers import BrokerInfo
from headrace.coordination.topics import TopicInfo, Wanted

NOW_MS = 1_800_000_000_000


class MemoryRegistry:
    """What is used of `TopicRegistry`; notes which topics were read by name."""

    def __init__(self) -> None:
        self.infos: dict[str, TopicInfo] = {}
        self.reads: list[str] = []
        self.rounds: list[tuple[str, int]] = []
        """Calls for many topics at once: what they did, to how many."""
        self._created = 0

    def create(self, topic: str, partitions: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> bool:
        if topic in self.infos:
            return False
        self._created += 1
        self._put(topic, partitions, config, 0, UUID(int=self._created))
        return True

    def read(self, topic: str) -> TopicInfo | None:
        return self.infos.get(topic)

    def read_many(self, topics: Sequence[str]) -> dict[str, TopicInfo]:
        self.reads += topics
        return {topic: self.infos[topic] for topic in topics if topic in self.infos}

    read_each = read_many

    def create_many(self, topics: Mapping[str, Wanted]) -> dict[str, TopicInfo | None]:
        self.rounds.append(("create", len(topics)))
        new = {topic: self.create(topic, replicas, config) for topic, (replicas, config) in topics.items()}
        return {topic: self.infos[topic] if is_new else None for topic, is_new in new.items()}

    def delete_many(self, topics: Mapping[str, UUID | None]) -> dict[str, bool]:
        self.rounds.append(("delete", len(topics)))
        meant = {
            topic for topic, wanted in topics.items() if topic in self.infos and wanted in (None, self.infos[topic].topic_id)
        }
        return {topic: topic in meant and self.delete(topic) for topic in topics}

    def list(self) -> list[str]:
        return sorted(self.infos)

    def delete(self, topic: str) -> bool:
        return self.infos.pop(topic, None) is not None

    def change_config(self, topic: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> bool:
        info = self.infos.get(topic)
        if info is None:
            return False
        self._put(topic, info.partitions, change(info.config), info.version + 1, info.topic_id)
        return True

    def add_partitions(self, topic: str, partitions: Mapping[int, Sequence[int]]) -> bool:
        info = self.infos.get(topic)
        if info is None:
            return False
        self._put(topic, {**info.partitions, **partitions}, info.config, info.version + 1, info.topic_id)
        return True

    def _put(
        self, topic: str, partitions: Mapping[int, Sequence[int]], config: Mapping[str, str], version: int, topic_id: UUID
    ) -> None:
        replicas = {index: tuple(ids) for index, ids in partitions.items()}
        self.infos[topic] = TopicInfo(topic=topic, partitions=replicas, config=dict(config), version=version, topic_id=topic_id)


class MemoryBrokers:
    def __init__(self) -> None:
        self.known = [BrokerInfo(broker_id=1, host="h", port=1, folder_id="f", timestamp_ms=0, endpoints={"PLAINTEXT": ("h", 1)})]

    def list(self) -> list[BrokerInfo]:
        return self.known
