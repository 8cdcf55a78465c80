"""The topic registry: which topics there are, where their partitions live, how they are configured.

JSON under /brokers/topics/{topic}: {"partitions": {"0": [broker ids]}, "config": {name: value}}; Kafka's own nodes of that path
are read as well (they have no "config").
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from . import paths
from .errors import CoordinationError, UnreadableNode, VersionConflict
from .node import Node
from .session import Session
from .topic_id import topic_id
from .values import json_bytes, read_json

ATTEMPTS = 10
"""How often a change of a topic's config starts over because somebody else changed the topic meanwhile."""


Wanted = tuple[Mapping[int, Sequence[int]], Mapping[str, str]]
"""A topic to be: its partitions with their broker ids, and its config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """One topic as registered."""

    topic: str
    partitions: Mapping[int, tuple[int, ...]]
    """Partition -> broker ids, the preferred leader first."""
    config: Mapping[str, str]
    version: int
    """The node's version: of one topic, the same version is the same value."""
    topic_id: UUID
    """Another one for every topic that ever had this name."""


class TopicRegistry:
    """Creates, reads, changes and watches topics."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(self, topic: str, partitions: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> bool:
        """Register the topic; return False when it exists already (it then stays as it is). Raises InvalidName."""
        made = self.create_many({topic: (partitions, config)})[topic]
        if isinstance(made, CoordinationError):
            raise made
        return made is not None

    def create_many(self, topics: Mapping[str, Wanted]) -> dict[str, TopicInfo | CoordinationError | None]:
        """Register the topics in one round of calls; return those that are new, None where there is one already (it stays as it
        is), and why it is not known or cannot be. Raises InvalidName, none then registered.
        """
        values = {paths.topic(topic): _write(partitions, config) for topic, (partitions, config) in topics.items()}
        nodes = self._session.tree.create_many(values)
        made: dict[str, TopicInfo | CoordinationError | None] = {}
        for topic in topics:
            node = nodes[paths.topic(topic)]
            made[topic] = _read(topic, node) if isinstance(node, Node) else node
        return made

    def read(self, topic: str) -> TopicInfo | None:
        """Return the topic, or None when there is none."""
        node = self._session.tree.read(paths.topic(topic))
        return None if node is None else _read(topic, node)

    def read_many(self, topics: Sequence[str]) -> dict[str, TopicInfo]:
        """Return those of the topics that exist, by name; one round of calls. Raises UnreadableNode."""
        read: dict[str, TopicInfo] = {}
        for topic, info in self.read_each(topics).items():
            if isinstance(info, UnreadableNode):
                raise info
            read[topic] = info
        return read

    def read_each(self, topics: Sequence[str]) -> dict[str, TopicInfo | UnreadableNode]:
        """Return those of the topics that exist, by name, or why one cannot be read; one round of calls."""
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
        """Unregister the topic; return False when there was none. What brokers do about its data is theirs."""
        gone = self.delete_many({topic: None})[topic]
        if isinstance(gone, CoordinationError):
            raise gone
        return gone

    def delete_many(self, topics: Mapping[str, UUID | None]) -> dict[str, bool | CoordinationError]:
        """Unregister the topics in one round of calls; return of each whether there was one, or why that is not known or cannot
        be. One that is given with an id is only unregistered if it has that id.
        """
        versions = {paths.topic(topic): -1 for topic, wanted_id in topics.items() if wanted_id is None}
        by_id = {topic: wanted_id for topic, wanted_id in topics.items() if wanted_id is not None}
        for topic, info in self.read_many(list(by_id)).items():
            if info.topic_id == by_id[topic]:
                # A topic made anew in this moment has the same version: ZooKeeper has no condition that could tell them apart.
                versions[paths.topic(topic)] = info.version
        outcomes = self._session.tree.delete_each(versions)
        return {topic: outcomes.get(paths.topic(topic), False) for topic in topics}

    def set_config(self, topic: str, config: Mapping[str, str]) -> bool:
        """Replace the topic's config, its partitions untouched; return False when there is no such topic."""
        return self.change_config(topic, lambda _: config)

    def change_config(self, topic: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> bool:
        """Put what `change` makes of the topic's config in its place; return False when there is no such topic.

        `change` is called anew, with the new config, when somebody else changed the topic meanwhile: two changes of different
        settings both stand.
        """
        for _ in range(ATTEMPTS):
            info = self.read(topic)
            if info is None:
                return False
            try:
                self._session.tree.write(paths.topic(topic), _write(info.partitions, change(info.config)), version=info.version)
            except VersionConflict:
                continue
            return True
        raise VersionConflict("configure", paths.topic(topic))

    def add_partitions(self, topic: str, partitions: Mapping[int, Sequence[int]]) -> bool:
        """Add partitions that the topic does not have yet, its others untouched; return False when there is no such topic."""
        for _ in range(ATTEMPTS):
            info = self.read(topic)
            if info is None:
                return False
            together = {**{partition: tuple(ids) for partition, ids in partitions.items()}, **info.partitions}
            try:
                self._session.tree.write(paths.topic(topic), _write(together, info.config), version=info.version)
            except VersionConflict:
                continue
            return True
        raise VersionConflict("extend", paths.topic(topic))

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback`, on the session's thread, once and after any topic came, went or changed; return what ends the
        watch.
        """
        return self._watch(callback, lambda _: callback)

    def watch_each(self, listed: Callable[[], None], changed: Callable[[str], None]) -> Callable[[], None]:
        """Like `watch`, but say what it was: `listed` after topics came or went, `changed` with the topic that may have changed.

        For those who keep a picture of thousands: reading them all for each that is made takes longer with every one.
        """
        return self._watch(listed, lambda topic: partial(changed, topic))

    def _watch(self, callback: Callable[[], None], of_topic: Callable[[str], Callable[[], None]]) -> Callable[[], None]:
        watched: dict[str, Callable[[], None]] = {}

        def on_list() -> None:
            present = set(self.list())
            for gone in watched.keys() - present:
                watched.pop(gone)()
            for new in sorted(present - watched.keys()):
                watched[new] = self._session.watch_data(paths.topic(new), of_topic(new))
            callback()

        end_list = self._session.watch_children(paths.BROKER_TOPICS, on_list)

        def end() -> None:
            end_list()
            for end_one in list(watched.values()):
                end_one()

        return end


def _write(partitions: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> bytes:
    return json_bytes(
        {
            "version": 1,
            "partitions": {paths.partition_step(partition): list(ids) for partition, ids in partitions.items()},
            "config": dict(config),
        }
    )


def _read(topic: str, node: Node) -> TopicInfo:
    value = read_json(paths.topic(topic), node.data)
    try:
        partitions = {int(partition): tuple(int(broker) for broker in ids) for partition, ids in value["partitions"].items()}
        config = {str(name): str(setting) for name, setting in value.get("config", {}).items()}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UnreadableNode(paths.topic(topic), node.data, f"partitions and config are expected: {error!r}") from None
    return TopicInfo(
        topic=topic,
        partitions=dict(sorted(partitions.items())),
        config=config,
        version=node.version,
        topic_id=topic_id(topic, created_zxid=node.created_zxid, created_ms=node.created_ms),
    )
