"""Topics on the loop's thread: created, extended, configured, followed, deleted; the loop's tables in step with ZooKeeper.

What may take long is `log_shelf`'s and runs on the worker's thread, one job after the other; what comes of it is put into the
tables here, in the same order."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..coordination.brokers import BrokerRegistry
from ..coordination.topics import TopicRegistry
from ..runtime.logs import get_logger
from .catalog import Catalog, Places, assignment, extension
from .errors import Overloaded
from .log_shelf import Change, LogShelf, Seen, log_config
from .partitions import AskFlush, Partition, PartitionTable
from .worker import Worker

log = get_logger(__name__)

Done = Callable[[bool | Exception], None]


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
        self._broker_id = broker_id
        self._table = table
        self._worker = worker
        self._ask_flush = ask_flush
        self._dispose = dispose
        self._shelf = LogShelf(data=data, broker_id=broker_id, defaults=defaults, topics=topics, brokers=brokers, now_ms=now_ms)
        self._creating: dict[str, list[Done]] = {}
        self._stale: set[str] = set()
        """Topics that may have changed since they were read."""
        self._is_looking = False
        self._look_again = False

    # On the thread that starts the broker, before worker and loop run, and on the one that stops it, after they have ended.

    def load(self) -> None:
        """Open this broker's logs, recovering what needs it. Raises: CoordinationError, LogError."""
        self._take_in(self._shelf.load())
        for folder in self._shelf.strangers():
            log.warning("folder_of_unknown_topic", folder=str(folder), kept=True)

    def close(self) -> None:
        """Flush and close every log."""
        self._shelf.close()

    # On the loop's thread.

    def refresh(self, topic: str | None = None) -> None:
        """Look at ZooKeeper again soon: which topics and brokers there are, and what has become of this one.

        Asked for while a look is under way, it looks once more; whatever was asked for meanwhile is one look.
        """
        if topic is not None:
            self._stale.add(topic)
        if self._is_looking:
            self._look_again = True
            return
        stale, self._stale = self._stale, set()

        def not_looked(error: Exception) -> None:
            log.warning("cluster_not_read", why=str(error))
            self._stale |= stale
            self._look_done()

        self._is_looking = self._worker.submit(lambda: self._shelf.look(stale), self._looked, not_looked)
        if not self._is_looking:
            self._stale |= stale

    def create(
        self, topic: str, partition_count: int, config: Mapping[str, str], done: Done, places: Places | None = None
    ) -> None:
        """Register the topic, open its logs, then tell `done`: True, False where it existed before, or the error.

        `places` says which brokers keep which partition; without it they go round.
        """
        if topic in self._creating:
            self._creating[topic].append(lambda outcome: done(False if outcome is True else outcome))
            return
        self._creating[topic] = [done]
        if places is None:
            places = assignment(partition_count, self._broker_ids, first=len(self.catalog.topics))
        where = places
        if not self._worker.submit(
            lambda: self._shelf.create(topic, where, config),
            lambda created: self._created(topic, *created),
            lambda error: self._tell(topic, error),
        ):
            self._tell(topic, Overloaded())

    def extend(self, topic: str, partition_count: int, places: Sequence[tuple[int, ...]] | None, done: Done) -> None:
        """Add partitions until there are so many, open their logs, then tell `done`: True, False where there is no such topic, or
        the error (`NotMorePartitions`). `places` has the brokers of each new one; without it they go round.
        """
        broker_ids = self._broker_ids
        if not self._worker.submit(
            lambda: self._shelf.extend(topic, lambda present: extension(topic, present, partition_count, broker_ids, places)),
            lambda extended: self._changed(topic, "topic_extended", done, *extended),
            done,
        ):
            done(Overloaded())

    def configure(self, topic: str, change: Change, done: Done) -> None:
        """Change the topic's own settings, have its open partitions go by them, then tell `done`: True, False where there is no
        such topic, or the error.
        """
        if not self._worker.submit(
            lambda: self._shelf.configure(topic, change),
            lambda configured: self._changed(topic, "topic_configured", done, *configured),
            done,
        ):
            done(Overloaded())

    def delete(self, topic: str, done: Done) -> None:
        """Take the topic out of ZooKeeper and delete its data here, then tell `done`: True, False where there was none, or
        the error.
        """

        def unregistered(existed: bool) -> None:
            self._remove(topic, "deleted")
            done(existed)

        if not self._worker.submit(lambda: self._shelf.unregister(topic), unregistered, done):
            done(Overloaded())

    @property
    def _broker_ids(self) -> set[int]:
        return {self._broker_id, *self.catalog.brokers}

    def _created(self, topic: str, is_new: bool, seen: Seen) -> None:
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

    def _changed(self, topic: str, event: str, done: Done, existed: bool, seen: Seen) -> None:
        self._take_in(seen, only=topic)
        entry = self.catalog.topics.get(topic)
        if existed and entry is not None:
            log.info(event, topic=topic, partitions=len(entry.partitions), config=dict(entry.config))
        done(existed)

    def _looked(self, seen: Seen) -> None:
        self._take_in(seen)
        self._look_done()

    def _look_done(self) -> None:
        self._is_looking = False
        if self._look_again:
            self._look_again = False
            self.refresh()

    def _take_in(self, seen: Seen, only: str | None = None) -> None:
        """Put what was seen into the tables; with `only`, nothing is concluded from other topics' absence."""
        known = self.catalog.topics
        if only is not None:
            if any(known.get(name) is not entry for name, entry in seen.topics.items()):
                self.catalog = replace(self.catalog, topics={**known, **seen.topics})
        elif seen.topics != known or seen.brokers != self.catalog.brokers:
            for gone in known.keys() - seen.topics.keys():
                self._remove(gone, "gone")
            self.catalog = replace(self.catalog, topics=seen.topics, brokers=seen.brokers)
        for (topic, index), (partition_log, settings) in seen.opened.items():
            present = self._table.get(topic, index)
            if present is None:
                self._table.add(Partition(topic, index, partition_log, settings, self._ask_flush))
            elif present.settings is not settings:
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

        if not self._worker.submit(lambda: self._shelf.set_aside(topic, why), set_aside, failed):
            failed(Overloaded())
