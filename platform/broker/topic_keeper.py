"""Topics: the truth in ZooKeeper, the logs in the data folder, and the loop's picture of both, kept in step.

ZooKeeper is read and logs are opened on the worker's thread, one job after the other; what comes of it is put into the loop's
tables on the loop's thread. A folder is never deleted because ZooKeeper does not know its topic: only a DeleteTopics request
deletes data, anything else sets it aside."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..coordination.brokers import BrokerRegistry
from ..coordination.topics import TopicInfo, TopicRegistry
from ..runtime.logs import get_logger
from . import topic_settings
from .catalog import BrokerAddress, Catalog, TopicEntry, assignment
from .errors import BeingDeleted, Overloaded
from .log import LogConfig, LogError, PartitionLog
from .partitions import AskFlush, Partition, PartitionTable
from .topic_settings import TopicSettings
from .worker import Worker

log = get_logger(__name__)

Done = Callable[[bool | Exception], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What a look at ZooKeeper found, with this broker's logs opened."""

    topics: Mapping[str, TopicInfo]
    brokers: Mapping[int, BrokerAddress]
    opened: Mapping[tuple[str, int], PartitionLog]


def log_config(settings: TopicSettings) -> LogConfig:
    """Return what the log below is told of a topic's settings."""
    return LogConfig(
        segment_bytes=settings.segment_bytes,
        segment_ms=settings.segment_ms,
        retention_ms=settings.retention_ms,
        retention_bytes=settings.retention_bytes,
        flush_on_roll=False,
    )


class TopicKeeper:
    """Creates, opens, follows and deletes topics."""

    def __init__(
        self,
        *,
        data: Path,
        broker_id: int,
        defaults: Mapping[str, str],
        cluster_id: str | None,
        topics: TopicRegistry,
        brokers: BrokerRegistry,
        table: PartitionTable,
        worker: Worker,
        now_ms: Callable[[], int],
        ask_flush: AskFlush,
        dispose: Callable[[Callable[[], None]], None],
    ) -> None:
        """`dispose` runs what takes long and nobody waits for (closing, deleting) off the loop."""
        self.catalog = Catalog(cluster_id=cluster_id)
        self._data = data
        self._broker_id = broker_id
        self._defaults = defaults
        self._topics = topics
        self._brokers = brokers
        self._table = table
        self._worker = worker
        self._now_ms = now_ms
        self._ask_flush = ask_flush
        self._dispose = dispose
        self._open: dict[tuple[str, int], PartitionLog] = {}
        """Every open log. The worker's thread alone uses this, and the next."""
        self._retiring: set[str] = set()
        """Topics that are out of ZooKeeper and whose old logs are not yet set aside: not to be opened before they are."""
        self._creating: dict[str, list[Done]] = {}
        self._is_looking = False
        self._look_again = False

    # On the thread that starts the broker, before worker and loop run.

    def load(self) -> None:
        """Open this broker's logs, recovering what needs it. Raises: CoordinationError, LogError."""
        self._take_in(self._look())
        known = set(self.catalog.topics)
        for folder in sorted(self._data.iterdir()):
            topic, dash, index = folder.name.rpartition("-")
            if dash and index.isdigit() and topic not in known and folder.is_dir():
                log.warning("folder_of_unknown_topic", folder=str(folder), kept=True)

    # On the loop's thread.

    def refresh(self) -> None:
        """Look at ZooKeeper again soon. Asked for while a look is under way, it looks once more."""
        if self._is_looking:
            self._look_again = True
            return
        self._is_looking = True
        if not self._worker.submit(self._look, self._looked, self._not_looked):
            self._is_looking = False

    def create(self, topic: str, partition_count: int, config: Mapping[str, str], done: Done) -> None:
        """Register the topic, open its logs, then tell `done`: True, False where it existed before, or the error."""
        if topic in self._creating:
            self._creating[topic].append(lambda outcome: done(False if outcome is True else outcome))
            return
        self._creating[topic] = [done]
        places = assignment(partition_count, {self._broker_id, *self.catalog.brokers}, first=len(self.catalog.topics))
        if not self._worker.submit(
            lambda: self._create(topic, places, config),
            lambda created: self._created(topic, *created),
            lambda error: self._tell(topic, error),
        ):
            self._tell(topic, Overloaded())

    def delete(self, topic: str, done: Done) -> None:
        """Take the topic out of ZooKeeper and delete its data here, then tell `done`: True, False where there was none, or
        the error.
        """

        def unregistered(existed: bool) -> None:
            self._remove(topic, "deleted")
            done(existed)

        if not self._worker.submit(lambda: self._unregister(topic), unregistered, done):
            done(Overloaded())

    def _created(self, topic: str, is_new: bool, seen: _Seen) -> None:
        self._take_in(seen, only=topic)
        if is_new:
            entry = self.catalog.topics.get(topic)
            log.info("topic_created", topic=topic, partitions=len(entry.partitions) if entry else 0)
        self._tell(topic, is_new)

    def _tell(self, topic: str, outcome: bool | Exception) -> None:
        if isinstance(outcome, Exception):
            log.warning("topic_not_created", topic=topic, why=str(outcome))
        for done in self._creating.pop(topic, []):
            done(outcome)

    def _looked(self, seen: _Seen) -> None:
        self._take_in(seen)
        self._look_done()

    def _not_looked(self, error: Exception) -> None:
        log.warning("cluster_not_read", why=str(error))
        self._look_done()

    def _look_done(self) -> None:
        self._is_looking = False
        if self._look_again:
            self._look_again = False
            self.refresh()

    def _take_in(self, seen: _Seen, only: str | None = None) -> None:
        """Put what was seen into the tables; with `only`, nothing is concluded from other topics' absence."""
        entries = {
            name: TopicEntry(name=name, partitions=info.partitions, config=info.config) for name, info in seen.topics.items()
        }
        if only is None:
            for gone in self.catalog.topics.keys() - entries.keys():
                self._remove(gone, "gone")
            self.catalog = replace(self.catalog, topics=entries, brokers=seen.brokers)
        else:
            self.catalog = replace(self.catalog, topics={**self.catalog.topics, **entries})
        for (topic, index), partition_log in seen.opened.items():
            settings = topic_settings.settings_of(entries[topic].config, self._defaults)
            present = self._table.get(topic, index)
            if present is None:
                self._table.add(Partition(topic, index, partition_log, settings, self._ask_flush))
            elif present.settings != settings:
                present.log.config = log_config(settings)
                present.configure(settings)

    def _remove(self, topic: str, why: str) -> None:
        """Serve the topic no more; then have its logs closed and set aside, where nobody on the loop uses them any longer."""
        topics = {name: entry for name, entry in self.catalog.topics.items() if name != topic}
        self.catalog = replace(self.catalog, topics=topics)
        removed = self._table.remove_topic(topic)
        if removed:
            log.info("topic_removed", topic=topic, partitions=len(removed), data=why)

        def set_aside(folders: list[Path]) -> None:
            if why == "deleted":
                for folder in folders:
                    self._dispose(lambda folder=folder: shutil.rmtree(folder))  # type: ignore[misc]
            self.refresh()  # it may have been registered anew meanwhile

        def failed(error: Exception) -> None:
            log.error("topic_not_set_aside", topic=topic, why=str(error))

        if not self._worker.submit(lambda: self._set_aside(topic, why), set_aside, failed):
            failed(Overloaded())

    # On the worker's thread.

    def _look(self) -> _Seen:
        topics = {name: info for name, info in self._topics.read_many(self._topics.list()).items() if name not in self._retiring}
        brokers = {
            broker.broker_id: BrokerAddress(broker_id=broker.broker_id, host=broker.host, port=broker.port)
            for broker in self._brokers.list()
        }
        self._retiring |= {topic for topic, _ in self._open} - topics.keys()
        return _Seen(topics=topics, brokers=brokers, opened=self._opened(topics))

    def _create(self, topic: str, places: Mapping[int, tuple[int, ...]], config: Mapping[str, str]) -> tuple[bool, _Seen]:
        if topic in self._retiring:
            raise BeingDeleted(topic)
        is_new = self._topics.create(topic, places, config)
        info = self._topics.read(topic)
        topics = {} if info is None else {topic: info}
        return is_new, _Seen(topics=topics, brokers={}, opened=self._opened(topics))

    def _opened(self, topics: Mapping[str, TopicInfo]) -> dict[tuple[str, int], PartitionLog]:
        opened = {}
        for topic, info in topics.items():
            if topic in self._retiring:
                continue
            settings = topic_settings.settings_of(info.config, self._defaults)
            for index, replicas in info.partitions.items():
                if self._broker_id not in replicas[:1]:
                    continue
                key = (topic, index)
                if key not in self._open:
                    self._open[key] = self._recovered(topic, index, log_config(settings))
                opened[key] = self._open[key]
        return opened

    def _recovered(self, topic: str, index: int, config: LogConfig) -> PartitionLog:
        folder = self._data / f"{topic}-{index}"
        partition_log = PartitionLog.open(folder, topic=topic, partition=index, config=config, now_ms=self._now_ms())
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

    def _unregister(self, topic: str) -> bool:
        existed = self._topics.delete(topic)
        self._retiring.add(topic)
        return existed

    def _set_aside(self, topic: str, why: str) -> list[Path]:
        """Close a topic's logs and rename their folders, so that a new topic of that name begins empty. Return the folders."""
        aside = []
        for key in [key for key in self._open if key[0] == topic]:
            partition_log = self._open.pop(key)
            try:
                partition_log.close()
            except LogError as error:
                log.warning("log_not_closed", topic=topic, partition=key[1], why=str(error))
            folder = self._data / f"{key[0]}-{key[1]}"
            aside.append(folder.rename(folder.with_name(f"{folder.name}.{why}.{self._now_ms()}")))
        self._retiring.discard(topic)
        return aside

    def close(self) -> None:
        """Flush and close every log. Worker and loop have ended."""
        for partition_log in self._open.values():
            partition_log.close()
        self._open.clear()
