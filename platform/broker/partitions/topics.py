"""Topics on the loop's thread: created, extended, configured, followed, deleted; the loop's tables in step with ZooKeeper.

What may take long is `log_shelf`'s and runs on the worker's thread, one job after the other; what comes of it is put into the
tables here, in the same order."""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from ...coordination.brokers import BrokerRegistry
from ...coordination.topics import TopicRegistry
from ...runtime.logs import get_logger
from ..event_loop.batched_jobs import BatchedJobs, Kind
from ..event_loop.worker import Worker
from .catalog import Catalog, Places, assignment, extension
from .open_logs import Change, ClusterView, OpenLogs, Outcome, log_config
from .partition import AskFlush, Partition, PartitionTable

log = get_logger(__name__)

Done = Callable[[bool | Exception], None]

CHANGE_COST = 10
"""Of one change of a topic, for `BatchedJobs`: it is read and written by calls of its own."""


class Topics:
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
        self._jobs = BatchedJobs(worker)
        self._shelf = OpenLogs(data=data, broker_id=broker_id, defaults=defaults, topics=topics, brokers=brokers, now_ms=now_ms)
        self._creating: dict[str, list[Done]] = {}
        self._creation = Kind(self._create, self._created, self._not_created)
        self._deletion = Kind(self._unregister, self._unregistered, self._not_unregistered)
        self._setting_aside = Kind(self._set_aside, self._are_aside, self._not_set_aside)
        self._change = Kind(self._carry_out, self._changed, self._not_changed)
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
        self._jobs.put(self._creation, _Creation(topic, places, config), cost=len(places))

    def extend(self, topic: str, partition_count: int, places: Sequence[tuple[int, ...]] | None, done: Done) -> None:
        """Add partitions until there are so many, open their logs, then tell `done`: True, False where there is no such topic, or
        the error (`NotMorePartitions`). `places` has the brokers of each new one; without it they go round.
        """
        broker_ids = self._broker_ids

        def extend() -> tuple[bool, ClusterView]:
            return self._shelf.extend(topic, lambda present: extension(topic, present, partition_count, broker_ids, places))

        self._jobs.put(self._change, _Changing(topic, "topic_extended", extend, done), cost=CHANGE_COST + partition_count)

    def configure(self, topic: str, change: Change, done: Done) -> None:
        """Change the topic's own settings, have its open partitions go by them, then tell `done`: True, False where there is no
        such topic, or the error.
        """
        changing = _Changing(topic, "topic_configured", lambda: self._shelf.configure(topic, change), done)
        self._jobs.put(self._change, changing, cost=CHANGE_COST)

    def delete(self, topic: str, done: Done, topic_id: UUID | None = None) -> None:
        """Take the topic out of ZooKeeper and delete its data here, then tell `done`: True, False where there was none, or
        the error. With `topic_id` a topic that has another id is not it.
        """
        self._jobs.put(self._deletion, _Deletion(topic, topic_id, done))

    @property
    def _broker_ids(self) -> set[int]:
        return {self._broker_id, *self.catalog.brokers}

    # Several topics at a time: what is done on the worker's thread, and what then becomes of it on the loop's.

    def _create(self, wanted: Sequence["_Creation"]) -> tuple[dict[str, Outcome], ClusterView]:
        return self._shelf.create({one.topic: (one.places, one.config) for one in wanted})

    def _created(self, wanted: Sequence["_Creation"], created: tuple[dict[str, Outcome], ClusterView]) -> None:
        outcomes, seen = created
        self._take_in(seen, is_whole=False)
        for one in wanted:
            outcome = outcomes[one.topic]
            if outcome is True:
                entry = self.catalog.topics.get(one.topic)
                log.info("topic_created", topic=one.topic, partitions=len(entry.partitions) if entry else 0)
            self._tell(one.topic, outcome)

    def _not_created(self, wanted: Sequence["_Creation"], error: Exception) -> None:
        for one in wanted:
            self._tell(one.topic, error)

    def _unregister(self, deletions: Sequence["_Deletion"]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        while len(outcomes) < len(deletions):
            some: dict[str, UUID | None] = {}
            for one in deletions[len(outcomes) :]:
                if one.topic in some:
                    break  # asked for twice: the second finds what the first has left
                some[one.topic] = one.topic_id
            outcomes += self._shelf.unregister(some).values()
        return outcomes

    def _unregistered(self, deletions: Sequence["_Deletion"], outcomes: Sequence[Outcome]) -> None:
        told = list(zip(deletions, outcomes, strict=True))
        # An id that no topic has says nothing of the topic that has the name.
        self._remove(
            {one.topic for one, outcome in told if outcome is True or (outcome is False and one.topic_id is None)}, "deleted"
        )
        for one, outcome in told:
            one.done(outcome)

    def _not_unregistered(self, deletions: Sequence["_Deletion"], error: Exception) -> None:
        for one in deletions:
            one.done(error)

    def _set_aside(self, going: Sequence["_Going"]) -> dict[str, list[Path] | Exception]:
        return self._shelf.set_aside({one.topic: one.why for one in going})

    def _are_aside(self, going: Sequence["_Going"], aside: Mapping[str, list[Path] | Exception]) -> None:
        to_erase: list[Path] = []
        for one in going:
            folders = aside[one.topic]
            if isinstance(folders, Exception):
                self._not_set_aside((one,), folders)
            elif one.why == "deleted":
                to_erase += folders
        if to_erase:
            self._dispose(partial(_erase, to_erase))
        self.refresh()  # they may have been registered anew meanwhile

    def _not_set_aside(self, going: Sequence["_Going"], error: Exception) -> None:
        for one in going:
            log.error("topic_not_set_aside", topic=one.topic, why=str(error))

    def _carry_out(self, changes: Sequence["_Changing"]) -> list[tuple[bool, ClusterView] | Exception]:
        results: list[tuple[bool, ClusterView] | Exception] = []
        for one in changes:
            try:
                results.append(one.change())
            except Exception as error:
                results.append(error)
        return results

    def _changed(self, changes: Sequence["_Changing"], results: Sequence[tuple[bool, ClusterView] | Exception]) -> None:
        for one, result in zip(changes, results, strict=True):
            if isinstance(result, Exception):
                one.done(result)
                continue
            existed, seen = result
            self._take_in(seen, is_whole=False)
            entry = self.catalog.topics.get(one.topic)
            if existed and entry is not None:
                log.info(one.event, topic=one.topic, partitions=len(entry.partitions), config=dict(entry.config))
            one.done(existed)

    def _not_changed(self, changes: Sequence["_Changing"], error: Exception) -> None:
        for one in changes:
            one.done(error)

    def _tell(self, topic: str, outcome: bool | Exception) -> None:
        if isinstance(outcome, Exception):
            log.warning("topic_not_created", topic=topic, why=str(outcome))
        for done in self._creating.pop(topic, []):
            done(outcome)

    def _looked(self, seen: ClusterView) -> None:
        self._take_in(seen)
        self._look_done()

    def _look_done(self) -> None:
        self._is_looking = False
        if self._look_again:
            self._look_again = False
            self.refresh()

    def _take_in(self, seen: ClusterView, *, is_whole: bool = True) -> None:
        """Put what was seen into the tables; when that is not the `whole`, nothing is concluded from other topics' absence."""
        known = self.catalog.topics
        if not is_whole:
            if any(known.get(name) is not entry for name, entry in seen.topics.items()):
                self.catalog = replace(self.catalog, topics={**known, **seen.topics})
        elif seen.topics != known or seen.brokers != self.catalog.brokers:
            self._remove(known.keys() - seen.topics.keys(), "gone")
            self.catalog = replace(self.catalog, topics=seen.topics, brokers=seen.brokers)
        for (topic, index), (partition_log, settings) in seen.opened.items():
            present = self._table.get(topic, index)
            if present is None:
                self._table.add(Partition(topic, index, partition_log, settings, self._ask_flush))
            elif present.settings is not settings:
                present.log.config = log_config(settings)
                present.configure(settings)

    def _remove(self, topics: Collection[str], why: str) -> None:
        """Serve the topics no more; then have their logs closed and set aside, where nobody on the loop uses them any longer."""
        if not topics:
            return
        left = {name: entry for name, entry in self.catalog.topics.items() if name not in topics}
        self.catalog = replace(self.catalog, topics=left)
        for topic in topics:
            removed = self._table.remove_topic(topic)
            if removed:
                log.info("topic_removed", topic=topic, partitions=len(removed), data=why)
            self._jobs.put(self._setting_aside, _Going(topic, why), cost=len(removed), is_required=True)


def _erase(folders: Sequence[Path]) -> None:
    """Remove the folders with all that is in them. Raises OSError for the last that cannot be, all others then gone."""
    fault: OSError | None = None
    for folder in folders:
        try:
            shutil.rmtree(folder)
        except OSError as error:
            fault = error
    if fault is not None:
        raise fault


class _Creation(NamedTuple):
    topic: str
    places: Places
    config: Mapping[str, str]


class _Deletion(NamedTuple):
    topic: str
    topic_id: UUID | None
    done: Done


class _Going(NamedTuple):
    topic: str
    why: str


class _Changing(NamedTuple):
    topic: str
    event: str
    change: Callable[[], tuple[bool, ClusterView]]
    done: Done
