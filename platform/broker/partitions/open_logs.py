"""The open logs of one broker, and its topics as ZooKeeper has them: the slow work on topics.

Only the worker thread uses it, one job after the other (before and after, the starting and the stopping thread). Results go to
the loop as a `ClusterView`. Its entries and settings are the same objects as last time where nothing has changed, so that ten
thousand partitions are compared without being touched; and `opened` names only partitions of topics that were read, so that a
change costs as much as it changes. A folder is never deleted because ZooKeeper does not know its topic: only a DeleteTopics
request deletes data, anything else renames the folder. A folder that belongs to another topic of the same name (`topic_note`) is
renamed, too."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from ...coordination.brokers import BrokerRegistry
from ...coordination.errors import CoordinationError
from ...coordination.topics import TopicInfo, TopicRegistry
from ...runtime.logs import get_logger
from ..errors import BeingDeleted
from ..log import FolderFault, LogConfig, LogError, PartitionLog, topic_note
from ..settings import topic_settings
from ..settings.topic_settings import TopicSettings
from . import replica_note
from .catalog import BrokerAddress, TopicEntry
from .replica_log import ReplicaLog, open_replica
from .replica_note import OldReplica, ReplicaNote

log = get_logger(__name__)

CLOSED_AT_ONCE = 16
REPLACED, MOVED = "replaced", "moved"

Opened = tuple[PartitionLog | ReplicaLog, TopicSettings]
Wanted = tuple[Mapping[int, tuple[int, ...]], Mapping[str, str]]
"""A topic to create: the brokers of each partition, and its own settings."""
Outcome = bool | Exception
"""The outcome for one topic of several, or the error."""
Extend = Callable[[Mapping[int, tuple[int, ...]]], Mapping[int, tuple[int, ...]]]
"""Takes a topic's partitions, returns those to add."""
Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Takes a topic's own settings, returns the new ones. Pure: it is called again when another broker has changed them meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A reading of ZooKeeper, with this broker's logs opened."""

    topics: Mapping[str, TopicEntry]
    brokers: Mapping[int, BrokerAddress]
    opened: Mapping[tuple[str, int], Opened]
    """The logs of topics that were read again, or that could not be opened before; of the others nothing has changed."""


def log_config(settings: TopicSettings) -> LogConfig:
    """Return the part of a topic's settings that its logs need."""
    return LogConfig(
        segment_bytes=settings.segment_bytes,
        segment_ms=settings.segment_ms,
        retention_ms=settings.retention_ms,
        retention_bytes=settings.retention_bytes,
        flush_on_roll=False,
        flush_at_open=settings.shows_only_what_is_flushed,
    )


@dataclass(slots=True, kw_only=True)
class _Known:
    info: TopicInfo
    entry: TopicEntry
    settings: TopicSettings


class OpenLogs:
    """Opens, closes and sets aside logs as topics are registered and removed."""

    def __init__(
        self,
        *,
        data: Path,
        broker_id: int,
        defaults: Mapping[str, str],
        topics: TopicRegistry,
        brokers: BrokerRegistry,
        now_ms: Callable[[], int],
        check_cluster: Callable[[], None] = lambda: None,
        delete_states: Callable[[UUID], None] = lambda topic_id: None,
        has_lost_memory: Callable[[], bool] = lambda: False,
        new_token: Callable[[], str] = replica_note.new_token,
        closed_at_once: int = CLOSED_AT_ONCE,
    ) -> None:
        """`new_token` draws the token of a replica's folder; `closed_at_once` logs are closed in parallel.

        `delete_states` removes the nodes of a topic's replicas. `check_cluster` raises CoordinationError if ZooKeeper has lost
        the tree: then no topic has gone, its node has, and none is made.
        """
        self._check_cluster = check_cluster
        self._delete_states = delete_states
        self._has_lost_memory = has_lost_memory
        self._new_token, self._closed_at_once = new_token, closed_at_once
        self._data = data
        self._broker_id = broker_id
        self._defaults = defaults
        self._topics = topics
        self._brokers = brokers
        self._now_ms = now_ms
        self._open: dict[str, dict[int, PartitionLog | ReplicaLog]] = {}
        self._known: dict[str, _Known] = {}
        self._entries: dict[str, TopicEntry] = {}
        """Those of `_known`."""
        self._unopened: dict[str, None] = {}
        """Known topics of which a log could not be opened, or was opened in a reading that failed."""
        self._addresses: Mapping[int, BrokerAddress] = {}
        self._retiring: set[str] = set()
        """Topics that are no longer in ZooKeeper and whose old logs are not set aside yet. Until then no log of theirs is opened.
        """

    def load(self) -> ClusterView:
        """Return the whole cluster, this broker's logs opened and recovered. Raises: CoordinationError, LogError."""
        return self._look(frozenset(), is_start=True)

    def look(self, stale: Collection[str], *, lists: bool = True) -> ClusterView:
        """Return the whole cluster. Only new topics and those named `stale` are read again; others are as last time. Without
        `lists` the lists of topics and brokers are as last time, too.

        A log that cannot be opened is left out, with a line in the broker's log. Raises: CoordinationError.
        """
        return self._look(stale, is_start=False, lists=lists)

    def _look(self, stale: Collection[str], *, is_start: bool, lists: bool = True) -> ClusterView:
        names = (set(self._topics.list()) if lists else self._known.keys() | stale) - self._retiring
        unread = sorted((names - self._known.keys()) | names.intersection(stale))
        read = self._topics.read_many(unread)
        lost = (self._known.keys() - names) | (set(unread) - read.keys())
        replaced = {topic for topic, info in read.items() if self._is_replaced(info)}
        if lost and not is_start:
            self._check_cluster()
        if lists:
            self._addresses = {
                broker.broker_id: BrokerAddress(
                    broker_id=broker.broker_id,
                    host=broker.host,
                    port=broker.port,
                    endpoints=broker.endpoints,
                    start_number=broker.start_number,
                )
                for broker in self._brokers.list()
            }
        for gone in sorted(lost | replaced):
            self._forget(gone)
            if self._open.get(gone):
                self._retiring.add(gone)
        for topic, info in read.items():
            if topic not in replaced:
                self._know(info)
        opened: dict[tuple[str, int], Opened] = {}
        failed: dict[str, None] = {}
        self._unopened |= dict.fromkeys(topic for topic in read if topic in self._known)
        for topic in self._unopened:
            try:
                self._open_all(self._known[topic], opened)
            except LogError as error:
                if is_start:
                    raise
                failed[topic] = None
                log.error("log_not_opened", topic=topic, why=str(error))
        self._unopened = failed
        return ClusterView(topics=dict(self._entries), brokers=self._addresses, opened=opened)

    def _is_replaced(self, info: TopicInfo) -> bool:
        """Return whether the topic was deleted and created again since it was read. Then the old one goes first."""
        known = self._known.get(info.topic)
        return known is not None and known.info.topic_id != info.topic_id

    def create(self, topics: Mapping[str, Wanted]) -> tuple[dict[str, Outcome], ClusterView]:
        """Register topics. Return for each whether it is new, or why it could not be created; and the topics as they are now.

        Raises: CoordinationError; the outcome is then unknown for all of them. A tree that was lost gets none: it would be in
        the way of the copy.
        """
        self._check_cluster()
        outcomes: dict[str, Outcome] = {topic: BeingDeleted(topic) for topic in topics if topic in self._retiring}
        wanted = {topic: one for topic, one in topics.items() if topic not in outcomes}
        in_the_way = [topic for topic in wanted if topic not in self._known and self._leftovers(topic, wanted[topic][0])]
        present = self._topics.read_each(in_the_way)
        for topic in [topic for topic in in_the_way if topic not in present]:
            try:
                self._make_room(topic, wanted[topic][0])
            except OSError as error:
                outcomes[topic] = error
                del wanted[topic]
        infos: dict[str, TopicInfo] = {}
        for topic, made in self._topics.create_many(wanted).items():
            outcomes[topic] = made if isinstance(made, Exception) else made is not None
            if isinstance(made, TopicInfo):
                infos[topic] = made
        found = self._topics.read_each([topic for topic in wanted if outcomes[topic] is False])
        return outcomes, self._see({**found, **infos}, outcomes)

    def extend(self, topic: str, extend: Extend) -> tuple[bool, ClusterView]:
        """Add partitions. Return whether the topic exists, and the topic as it is now. Raises: CoordinationError, LogError, and
        what `extend` raises.
        """
        info = None if topic in self._retiring else self._topics.read(topic)
        if info is None:
            return False, _NOTHING
        added = extend(info.partitions)
        self._make_room(topic, added)
        existed = self._topics.add_partitions(topic, added)
        return existed, self._see_one(topic)

    def configure(self, topic: str, change: Change) -> tuple[bool, ClusterView]:
        """Change a topic's own settings. Return whether the topic exists, and the topic as it is now. Raises: CoordinationError,
        LogError.
        """
        if topic in self._retiring:
            return False, _NOTHING
        existed = self._topics.change_config(topic, change)
        return existed, self._see_one(topic)

    def unregister(self, topics: Mapping[str, UUID | None]) -> dict[str, Outcome]:
        """Remove topics from ZooKeeper; where an id is given, only a topic with that id. Return for each whether it was there, or
        why that is unknown. The logs of removed topics stay until `set_aside`. Raises: CoordinationError.
        """
        replicated = {
            topic: known.info.topic_id
            for topic in topics
            if (known := self._known.get(topic)) is not None and any(len(ids) > 1 for ids in known.info.partitions.values())
        }
        outcomes: dict[str, Outcome] = {**self._topics.delete_many(topics)}
        for topic, topic_id in replicated.items():
            if outcomes[topic] is True:
                self._delete_states(topic_id)
        for topic, outcome in outcomes.items():
            if outcome is True or (outcome is False and topics[topic] is None):
                self._retiring.add(topic)
        return outcomes

    def set_aside(self, topics: Mapping[str, str]) -> dict[str, list[Path] | Exception]:
        """Close topics' logs and rename their folders, so that new topics of these names begin empty. The reason given with each
        becomes part of the folder's name. Return the renamed folders of each topic, or why they stay.
        """
        going = {(topic, index): one for topic in topics for index, one in self._open.pop(topic, {}).items()}
        for (topic, index), error in _closed(going, self._closed_at_once).items():
            log.warning("log_not_closed", topic=topic, partition=index, why=str(error))
        aside: dict[str, list[Path] | Exception] = {topic: [] for topic in topics}
        for topic, index in going:
            folders = aside[topic]
            try:
                if isinstance(folders, list):
                    folders.append(self._put_aside(self._data / f"{topic}-{index}", topics[topic]))
            except OSError as error:
                aside[topic] = error
        for topic, outcome in aside.items():
            self._forget(topic)
            if isinstance(outcome, list):
                self._retiring.discard(topic)
        return aside

    def _make_room(self, topic: str, indices: Collection[int]) -> None:
        """Set aside the folders of an earlier topic of this name: its deletion may have been interrupted after the answer."""
        for folder in self._leftovers(topic, indices):
            aside = self._put_aside(folder, "gone")
            log.warning("folder_of_unknown_topic", folder=str(aside), what_to_do="not deleted: remove it, or read it elsewhere")

    def _leftovers(self, topic: str, indices: Collection[int]) -> list[Path]:
        folders = [self._data / f"{topic}-{index}" for index in indices if index not in self._open.get(topic, {})]
        return [folder for folder in folders if folder.exists()]

    def _put_aside(self, folder: Path, why: str) -> Path:
        return folder.rename(folder.with_name(f"{folder.name}.{why}.{self._now_ms()}"))

    def unknown_folders(self) -> list[Path]:
        """Return the folders that look like partitions' and belong to no known topic."""
        found = []
        for folder in sorted(self._data.iterdir()):
            topic, dash, index = folder.name.rpartition("-")
            if dash and index.isdigit() and topic not in self._known and folder.is_dir():
                found.append(folder)
        return found

    def expired_folders(self) -> list[Path]:
        """Return the folders of replaced topics that were set aside longer ago than the broker's default retention."""
        retention_ms = topic_settings.settings_of({}, self._defaults).retention_ms
        found = []
        for folder in self._data.glob(f"*.{REPLACED}.*"):
            since_ms = folder.name.rpartition(".")[2]
            if retention_ms >= 0 and since_ms.isdigit() and int(since_ms) + retention_ms < self._now_ms():
                found.append(folder)
        return found

    def close(self) -> None:
        """Flush and close every log. Raises: LogError, after all are closed."""
        faults = _closed(
            {(topic, index): one for topic, logs in self._open.items() for index, one in logs.items()}, self._closed_at_once
        )
        self._open.clear()
        for error in faults.values():
            raise error

    def _see_one(self, topic: str) -> ClusterView:
        faults: dict[str, Outcome] = {}
        seen = self._see(self._topics.read_each([topic]), faults)
        if isinstance(fault := faults.get(topic), Exception):
            raise fault
        return seen

    def _see(self, found: Mapping[str, TopicInfo | CoordinationError], outcomes: dict[str, Outcome]) -> ClusterView:
        """Return the topics as they are now, with their logs opened. For one that cannot be read or opened, the error goes into
        `outcomes`.
        """
        entries: dict[str, TopicEntry] = {}
        opened: dict[tuple[str, int], Opened] = {}
        for topic, info in found.items():
            if isinstance(info, CoordinationError):
                outcomes[topic] = info
                continue
            known = self._know(info)
            self._unopened[topic] = None
            of_topic: dict[tuple[str, int], Opened] = {}
            try:
                self._open_all(known, of_topic)
            except LogError as error:
                outcomes[topic] = error
                continue
            entries[topic] = known.entry
            opened |= of_topic
        for topic in entries:
            self._unopened.pop(topic, None)
        return ClusterView(topics=entries, brokers={}, opened=opened)

    def _know(self, info: TopicInfo) -> _Known:
        known = self._known.get(info.topic)
        if known is None or known.info != info:
            entry = TopicEntry(name=info.topic, partitions=info.partitions, config=info.config, topic_id=info.topic_id)
            settings = topic_settings.settings_of(info.config, self._defaults)
            if known is not None and known.settings == settings:
                settings = known.settings
            known = self._known[info.topic] = _Known(info=info, entry=entry, settings=settings)
            self._entries[info.topic] = entry
        return known

    def _forget(self, topic: str) -> None:
        self._known.pop(topic, None)
        self._entries.pop(topic, None)
        self._unopened.pop(topic, None)

    def _open_all(self, known: _Known, opened: dict[tuple[str, int], Opened]) -> None:
        """Put this broker's logs of a topic into `opened`. Raises: LogError; the logs before the failed one stay there."""
        topic, settings = known.entry.name, known.settings
        if topic in self._retiring:
            return
        logs = self._open.setdefault(topic, {})
        for index, replicas in known.entry.partitions.items():
            if self._broker_id not in (replicas if len(replicas) > 1 else replicas[:1]):
                continue
            opened_log = logs.get(index)
            if opened_log is None:
                topic_id, config = known.entry.topic_id, log_config(settings)
                if len(replicas) == 1:
                    opened_log = logs[index] = self._recovered(topic, index, topic_id, config)
                else:
                    opened_log = self._replica(topic, index, topic_id, config)
                    if opened_log is None:
                        continue
                    logs[index] = opened_log
            elif isinstance(opened_log, PartitionLog) and len(replicas) > 1:
                replica = self._as_replica(opened_log, known.entry.topic_id)
                if replica is None:
                    continue
                opened_log = logs[index] = replica
            opened[topic, index] = (opened_log, settings)

    def _replica(self, topic: str, index: int, topic_id: UUID, config: LogConfig) -> ReplicaLog | None:
        """Open the log of one of several replicas. One that cannot be opened is left out: the others serve the partition."""
        try:
            partition_log = self._recovered(topic, index, topic_id, config)
            try:
                return open_replica(
                    partition_log,
                    topic_id,
                    self._now_ms,
                    has_lost_memory=self._has_lost_memory(),
                    new_token=self._new_token,
                )
            except (LogError, OSError):
                partition_log.close()
                raise
        except (LogError, OSError) as error:
            log.error(
                "replica_not_opened",
                topic=topic,
                partition=index,
                why=str(error),
                what_to_do="while other replicas are in sync: move the partition's folder away and start this broker again",
            )
            return None

    def _as_replica(self, partition_log: PartitionLog, topic_id: UUID) -> ReplicaLog | None:
        """Return an open log, of a partition that had one replica and gets more, as a replica; None when its folder refuses."""
        try:
            return open_replica(partition_log, topic_id, self._now_ms)
        except (LogError, OSError) as error:
            log.error("replica_not_opened", topic=partition_log.topic, partition=partition_log.partition, why=str(error))
            return None

    def drop(self, topic: str, topic_id: UUID, index: int) -> list[Path]:
        """Close the log of a replica that was moved to another broker, rename its folder, and return that. Empty: it stays,
        because the topic names this broker again. Raises OSError.
        """
        known = self._known.get(topic)
        if known is None or known.info.topic_id != topic_id or self._broker_id in known.info.partitions.get(index, ()):
            return []
        going = self._open.get(topic, {}).pop(index, None)
        if going is None:
            return []
        for error in _closed({(topic, index): going}, 1).values():
            log.warning("log_not_closed", topic=topic, partition=index, why=str(error))
        return [self._put_aside(self._data / f"{topic}-{index}", MOVED)]

    def old_replicas(self) -> dict[tuple[UUID, int], OldReplica]:
        """Return the folders of replicas of known topics that do not name this broker, by topic and partition.

        Not those of another topic of the same name, those without a readable note, and those that are open.
        """
        found = {}
        for folder in sorted(self._data.iterdir()):
            topic, dash, index = folder.name.rpartition("-")
            if dash and index.isdigit() and (known := self._known.get(topic)) is not None:
                key = (known.info.topic_id, int(index))
                if self._is_old(folder, topic, *key) and (noted := _note_of(folder)) is not None:
                    found[key] = OldReplica(topic=topic, noted=noted)
        return found

    def drop_old(self, topic: str, topic_id: UUID, index: int) -> list[Path]:
        """Rename the folder of a replica that nothing has opened, and return that. Empty: it stays, because the topic names this
        broker again. Raises OSError.
        """
        folder = self._data / f"{topic}-{index}"
        return [self._put_aside(folder, MOVED)] if self._is_old(folder, topic, topic_id, index) else []

    def _is_old(self, folder: Path, topic: str, topic_id: UUID, index: int) -> bool:
        known = self._known.get(topic)
        if known is None or known.info.topic_id != topic_id or index in self._open.get(topic, {}):
            return False
        replicas = known.info.partitions.get(index)
        return bool(replicas) and self._broker_id not in (replicas or ()) and topic_note.read(folder) == topic_id

    def _recovered(self, topic: str, index: int, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """Open a log, in an empty folder if the present one belongs to another topic of this name."""
        folder = self._data / f"{topic}-{index}"
        try:
            noted = topic_note.read(folder)
            if noted is not None and noted != topic_id:
                aside = self._put_aside(folder, REPLACED)
                log.warning(
                    "folder_of_deleted_topic",
                    folder=str(aside),
                    topic_id=str(noted),
                    what_to_do="read it elsewhere, or remove it",
                )
        except OSError as error:
            raise FolderFault(topic=topic, partition=index, path=folder, cause=error) from error
        partition_log = PartitionLog.open(folder, topic=topic, partition=index, config=config, now_ms=self._now_ms())
        if noted != topic_id:
            try:
                topic_note.write(folder, topic_id, is_durable=config.flush_at_open)
            except OSError as error:
                partition_log.close()
                raise FolderFault(topic=topic, partition=index, path=folder, cause=error) from error
        report = partition_log.recovery
        if report.cut_bytes or report.bad_ranges:
            log.warning(
                "log_recovered",
                topic=topic,
                partition=index,
                cut_from_offset=report.cut_from_offset,
                cut_bytes=report.cut_bytes,
                cut_reason=report.cut_reason,
                bad_ranges=[list(bad) for bad in report.bad_ranges],
            )
        return partition_log


def _note_of(folder: Path) -> ReplicaNote | None:
    try:
        return replica_note.read(folder)
    except (OSError, ValueError):
        return None


def _closed(logs: Mapping[tuple[str, int], PartitionLog | ReplicaLog], at_once: int) -> dict[tuple[str, int], LogError]:
    """Flush and close logs, several in parallel, as the disk merges flushes. Return the errors of those that failed."""
    faults: dict[tuple[str, int], LogError] = {}

    def close(key: tuple[str, int]) -> None:
        try:
            logs[key].close()
        except LogError as error:
            faults[key] = error

    if at_once == 1:
        for key in logs:
            close(key)
        return faults
    with ThreadPoolExecutor(at_once) as threads:
        for done in [threads.submit(close, key) for key in logs]:
            done.result()
    return {key: faults[key] for key in logs if key in faults}


_NOTHING = ClusterView(topics={}, brokers={}, opened={})
