"""The topic registry: the topics, the brokers of their partitions, and their configuration.

JSON under /brokers/topics/{topic}: {"partitions": {"0": [broker ids]}, "config": {name: value}}, and "topic_id" where the node is
not the one that the topic was created with; Kafka's own nodes at that path have no "config" and are read too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from . import paths
from .errors import CoordinationError, UnreadableNode, VersionConflict
from .node import Node
from .session import Session
from .topic_id import id_of_word, id_word, topic_id
from .values import json_bytes, read_json
from .watched_children import watch_each

ATTEMPTS = 10
"""How often a change of a topic starts over because another client changed the topic."""


Wanted = tuple[Mapping[int, Sequence[int]], Mapping[str, str]]
"""A topic to create: its partitions with their broker ids, and its config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """One topic as registered."""

    topic: str
    partitions: Mapping[int, tuple[int, ...]]
    """Partition -> broker ids, the preferred leader first. A replicated partition with one replica has its broker twice."""
    config: Mapping[str, str]
    version: int
    """The node's version. Two reads of one topic with the same version have the same value."""
    topic_id: UUID
    """Each topic that ever had this name has another id."""
    is_id_stored: bool = False
    """The id is in the node: the topic was brought here from a ZooKeeper that was lost."""

    @property
    def stored_id(self) -> UUID | None:
        return self.topic_id if self.is_id_stored else None


class TopicRegistry:
    """Creates, reads, changes and watches topics."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(self, topic: str, partitions: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> bool:
        """Register the topic. Return False, and change nothing, when it exists. Raises InvalidName."""
        made = self.create_many({topic: (partitions, config)})[topic]
        if isinstance(made, CoordinationError):
            raise made
        return made is not None

    def create_many(self, topics: Mapping[str, Wanted]) -> dict[str, TopicInfo | CoordinationError | None]:
        """Register the topics in one round of calls. Return for each the new topic, None where it exists (it is not changed), or
        the error where the call failed or its outcome is unknown. Raises InvalidName before any is registered.
        """
        values = {paths.topic(topic): _write(partitions, config) for topic, (partitions, config) in topics.items()}
        nodes = self._session.tree.create_many(values)
        made: dict[str, TopicInfo | CoordinationError | None] = {}
        for topic in topics:
            node = nodes[paths.topic(topic)]
            made[topic] = _read(topic, node) if isinstance(node, Node) else node
        return made

    def read(self, topic: str) -> TopicInfo | None:
        """Return the topic, or None when it does not exist."""
        node = self._session.tree.read(paths.topic(topic))
        return None if node is None else _read(topic, node)

    def read_many(self, topics: Sequence[str]) -> dict[str, TopicInfo]:
        """Return the topics that exist, by name, in one round of calls. Raises UnreadableNode."""
        read: dict[str, TopicInfo] = {}
        for topic, info in self.read_each(topics).items():
            if isinstance(info, UnreadableNode):
                raise info
            read[topic] = info
        return read

    def read_each(self, topics: Sequence[str]) -> dict[str, TopicInfo | UnreadableNode]:
        """Return the topics that exist, by name, in one round of calls; the error where a node cannot be read."""
        found = self._session.tree.read_many(paths.topic(topic) for topic in topics)
        read: dict[str, TopicInfo | UnreadableNode] = {}
        for topic in topics:
            if (node := found.get(paths.topic(topic))) is not None:
                try:
                    read[topic] = _read(topic, node)
                except UnreadableNode as error:
                    read[topic] = error
        return read

    def list(self) -> list[str]:
        """Return the topics' names, sorted."""
        return self._session.tree.children(paths.BROKER_TOPICS)

    def delete(self, topic: str) -> bool:
        """Unregister the topic. Return False when it does not exist. Brokers remove its data themselves."""
        gone = self.delete_many({topic: None})[topic]
        if isinstance(gone, CoordinationError):
            raise gone
        return gone

    def delete_many(self, topics: Mapping[str, UUID | None]) -> dict[str, bool | CoordinationError]:
        """Unregister the topics in one round of calls. A topic with an id given is only unregistered when it has that id.

        Return for each whether it existed, or the error where the call failed or its outcome is unknown.
        """
        versions = {paths.topic(topic): -1 for topic, wanted_id in topics.items() if wanted_id is None}
        by_id = {topic: wanted_id for topic, wanted_id in topics.items() if wanted_id is not None}
        for topic, info in self.read_many(list(by_id)).items():
            if info.topic_id == by_id[topic]:
                # A topic recreated in this moment has the same version: no condition of ZooKeeper distinguishes the two.
                versions[paths.topic(topic)] = info.version
        outcomes = self._session.tree.delete_each(versions)
        return {topic: outcomes.get(paths.topic(topic), False) for topic in topics}

    def set_config(self, topic: str, config: Mapping[str, str]) -> bool:
        """Replace the topic's config and keep its partitions. Return False when there is no such topic."""
        return self.change_config(topic, lambda _: config)

    def change_config(self, topic: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> bool:
        """Replace the topic's config by what `change` makes of it. Return False when there is no such topic.

        When another client changed the topic meanwhile, `change` is called again with the new config. So two changes of different
        settings are both kept.
        """
        for _ in range(ATTEMPTS):
            info = self.read(topic)
            if info is None:
                return False
            try:
                self._session.tree.write(
                    paths.topic(topic), _write(info.partitions, change(info.config), info.stored_id), version=info.version
                )
            except VersionConflict:
                continue
            return True
        raise VersionConflict("configure", paths.topic(topic))

    def add_partitions(self, topic: str, partitions: Mapping[int, Sequence[int]]) -> bool:
        """Add the partitions that the topic does not have; keep the others. Return False when there is no such topic."""
        for _ in range(ATTEMPTS):
            info = self.read(topic)
            if info is None:
                return False
            together = {**{partition: tuple(ids) for partition, ids in partitions.items()}, **info.partitions}
            try:
                self._session.tree.write(paths.topic(topic), _write(together, info.config, info.stored_id), version=info.version)
            except VersionConflict:
                continue
            return True
        raise VersionConflict("extend", paths.topic(topic))

    def assign(self, topic: str, topic_id: UUID, replicas: Mapping[int, Sequence[int]]) -> bool:
        """Name other brokers for some of the topic's partitions. Return False when there is no such topic with this id."""
        for _ in range(ATTEMPTS):
            info = self.read(topic)
            if info is None or info.topic_id != topic_id:
                return False
            changed = {partition: tuple(ids) for partition, ids in replicas.items() if partition in info.partitions}
            partitions = {**info.partitions, **changed}
            if partitions == info.partitions:
                return True
            try:
                self._session.tree.write(
                    paths.topic(topic), _write(partitions, info.config, info.stored_id), version=info.version
                )
            except VersionConflict:
                continue
            return True
        raise VersionConflict("assign", paths.topic(topic))

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` on the session's thread, now and after any topic appeared, disappeared or changed. Return what ends the
        watch.
        """
        return watch_each(self._session, paths.BROKER_TOPICS, callback, lambda _: callback)

    def watch_each(self, listed: Callable[[], None], changed: Callable[[str], None]) -> Callable[[], None]:
        """Watch as `watch` does, with two callbacks: `listed` after topics appeared or disappeared, `changed` with the topic that
        may have changed.

        For a caller that caches thousands of topics: it must not read all of them for each new one.
        """
        return watch_each(self._session, paths.BROKER_TOPICS, listed, lambda topic: partial(changed, topic))


def _write(partitions: Mapping[int, Sequence[int]], config: Mapping[str, str], stored_id: UUID | None = None) -> bytes:
    value: dict[str, object] = {
        "version": 1,
        "partitions": {paths.partition_step(partition): list(ids) for partition, ids in partitions.items()},
        "config": dict(config),
    }
    return json_bytes(value if stored_id is None else {**value, "topic_id": id_word(stored_id)})


def _read(topic: str, node: Node) -> TopicInfo:
    value = read_json(paths.topic(topic), node.data)
    try:
        partitions = {int(partition): tuple(int(broker) for broker in ids) for partition, ids in value["partitions"].items()}
        config = {str(name): str(setting) for name, setting in value.get("config", {}).items()}
        stored_id = id_of_word(str(value.get("topic_id", "")))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UnreadableNode(paths.topic(topic), node.data, f"partitions and config are expected: {error!r}") from None
    return TopicInfo(
        topic=topic,
        partitions=dict(sorted(partitions.items())),
        config=config,
        version=node.version,
        topic_id=stored_id or topic_id(topic, created_zxid=node.created_zxid, created_ms=node.created_ms),
        is_id_stored=stored_id is not None,
    )
