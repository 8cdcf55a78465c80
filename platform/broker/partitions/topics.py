"""Creates, extends, configures and deletes topics, and follows their changes in ZooKeeper. Lives on the loop thread.

The slow work is done by `open_logs` on the worker thread, one job after the other. Its results go into the loop's tables (the
catalog, the partitions) here, in the same order."""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import UUID

from ...coordination.brokers import BrokerRegistry
from ...coordination.topics import TopicRegistry
from ...runtime.logs import get_logger
from ..errors import NotEnoughBrokers
from ..event_loop.batched_jobs import BatchedJobs, Kind
from ..event_loop.worker import Worker
from ..settings.topic_settings import TopicSettings
from .catalog import Catalog, ReplicaAssignment, ReplicaView, TopicEntry, assignment, extension
from .open_logs import CLOSED_AT_ONCE, Change, ClusterView, OpenLogs, Outcome, log_config
from .partition import AskFlush, Partition, PartitionTable
from .replica_log import ReplicaLog
from .replica_note import OldReplica, new_token

log = get_logger(__name__)

Done = Callable[[bool | Exception], None]


class Replication(Protocol):
    """Runs the replicas of this broker (`replicas.Replicas`)."""

    def open(self, entry: TopicEntry, index: int, replica_log: ReplicaLog, settings: TopicSettings) -> None:
        """Run the replica of this log, or give it its settings."""
        ...

    def forget(self, topic: str) -> None:
        """The topic is gone here."""
        ...

    def watch_topics(self, topics: Mapping[str, TopicEntry]) -> None:
        """These are all topics now."""
        ...


CHANGE_COST = 10
"""The cost of one change of a topic, for `BatchedJobs`: it makes calls of its own to ZooKeeper."""


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
        check_cluster: Callable[[], None] = lambda: None,
        when_ready: Callable[[str, Callable[[], None]], None] = lambda topic, ready: ready(),
        replication: Replication | None = None,
        delete_states: Callable[[UUID], None] = lambda topic_id: None,
        has_lost_memory: Callable[[], bool] = lambda: False,
        new_token: Callable[[], str] = new_token,
        closed_at_once: int = CLOSED_AT_ONCE,
    ) -> None:
        """`dispose` runs slow work that nothing waits for (deleting files) off the loop; `check_cluster`, `new_token` and
        `closed_at_once`: see `OpenLogs`; `when_ready`: see `OtherBrokers`. `replication` None: only topics of one replica are
        served.
        """
        self.catalog = Catalog(cluster_id=cluster_id)
        self._broker_id = broker_id
        self._table = table
        self._worker = worker
        self._ask_flush = ask_flush
        self._dispose = dispose
        self._when_ready = when_ready
        self._replication = replication
        self._read: Mapping[str, TopicEntry] = {}
        """The topics as they were read. The catalog's have the states of their replicas, too."""
        self._states: dict[tuple[UUID, int], ReplicaView] = {}
        self._jobs = BatchedJobs(worker)
        self._logs = OpenLogs(
            data=data,
            broker_id=broker_id,
            defaults=defaults,
            topics=topics,
            brokers=brokers,
            now_ms=now_ms,
            check_cluster=check_cluster,
            delete_states=delete_states,
            has_lost_memory=has_lost_memory,
            new_token=new_token,
            closed_at_once=closed_at_once,
        )
        self._creating: dict[str, list[Done]] = {}
        self._creation = Kind(self._create, self._created, self._not_created)
        self._deletion = Kind(self._unregister, self._unregistered, self._not_unregistered)
        self._setting_aside = Kind(self._set_aside, self._are_aside, self._not_set_aside)
        self._change = Kind(self._carry_out, self._changed, self._not_changed)
        self._stale: set[str] = set()
        """Topics that may have changed since they were read."""
        self._list_is_stale = False
        self._is_refreshing = False
        self._refresh_again = False

    # -- on the thread that starts or stops the broker, while worker and loop do not run ------

    def load(self) -> None:
        """Open this broker's logs and recover them where needed. Raises: CoordinationError, LogError."""
        self._take_in(self._logs.load())
        for folder in self._logs.unknown_folders():
            log.warning("folder_of_unknown_topic", folder=str(folder), kept=True)
        if expired := self._logs.expired_folders():
            log.info("replaced_topics_expired", folders=[str(folder) for folder in expired])
            self._dispose(partial(_erase, expired))

    def close(self) -> None:
        """Flush and close every log."""
        self._logs.close()

    # -- on the loop thread -------------------------------------------------------------------

    def refresh(self, topic: str | None = None) -> None:
        """Read from ZooKeeper again soon: this topic's partitions and settings; None: the lists of topics and brokers.

        All calls during a reading together cause one more reading.
        """
        if topic is not None:
            self._stale.add(topic)
        else:
            self._list_is_stale = True
        if self._is_refreshing:
            self._refresh_again = True
            return
        self._look_again()

    def _look_again(self) -> None:
        stale, self._stale = self._stale, set()
        lists, self._list_is_stale = self._list_is_stale, False

        def not_read() -> None:
            self._stale |= stale
            self._list_is_stale |= lists

        def failed(error: Exception) -> None:
            log.warning("cluster_not_read", why=str(error))
            not_read()
            self._refresh_ended()

        self._is_refreshing = self._worker.submit(lambda: self._logs.look(stale, lists=lists), self._refreshed, failed)
        if not self._is_refreshing:
            not_read()

    def create(
        self,
        topic: str,
        partition_count: int,
        config: Mapping[str, str],
        done: Done,
        replicas: ReplicaAssignment | None = None,
        replication_factor: int = 1,
    ) -> None:
        """Register the topic, open its logs, and wait a bounded time for the other brokers to serve it. `done` gets True, False
        where the topic existed before, or the error (`NotEnoughBrokers`).

        `replicas` has the brokers of each partition; without it so many replicas of each partition are spread over the brokers.
        """
        if topic in self._creating:
            self._creating[topic].append(lambda outcome: done(False if outcome is True else outcome))
            return
        if replicas is None:
            first = len(self.catalog.topics)
            try:
                replicas = assignment(partition_count, self._broker_ids, first=first, replication_factor=replication_factor)
            except NotEnoughBrokers as error:
                log.warning("topic_not_created", topic=topic, why=str(error))
                done(error)
                return
        self._creating[topic] = [done]
        self._jobs.put(self._creation, _Creation(topic, replicas, config), cost=len(replicas))

    def extend(self, topic: str, partition_count: int, replicas: Sequence[tuple[int, ...]] | None, done: Done) -> None:
        """Add partitions until there are `partition_count`, and open their logs. `done` gets True, False where there is no such
        topic, or the error (`NotMorePartitions`, `NotEnoughBrokers`). `replicas` has the brokers of each new partition;
        without it they are spread over the brokers, with as many replicas as the topic has.
        """
        broker_ids = self._broker_ids

        def extend() -> tuple[bool, ClusterView]:
            return self._logs.extend(topic, lambda present: extension(topic, present, partition_count, broker_ids, replicas))

        self._jobs.put(self._change, _Changing(topic, "topic_extended", extend, done), cost=CHANGE_COST + partition_count)

    def configure(self, topic: str, change: Change, done: Done) -> None:
        """Change the topic's own settings and apply them to its open partitions. `done` gets True, False where there is no such
        topic, or the error.
        """
        changing = _Changing(topic, "topic_configured", lambda: self._logs.configure(topic, change), done)
        self._jobs.put(self._change, changing, cost=CHANGE_COST)

    def delete(self, topic: str, done: Done, topic_id: UUID | None = None) -> None:
        """Remove the topic from ZooKeeper and delete its data here. `done` gets True, False where there was no such topic, or
        the error. With `topic_id`, a topic of this name with another id does not count.
        """
        self._jobs.put(self._deletion, _Deletion(topic, topic_id, done))

    def find_old_replicas(self, done: Callable[[Mapping[tuple[UUID, int], OldReplica]], None]) -> bool:
        """Call `done` with the folders of replicas that were moved to other brokers while this one was down. False: not now."""

        def failed(error: Exception) -> None:
            log.warning("old_replicas_not_found", why=str(error))

        return self._worker.submit(self._logs.old_replicas, done, failed)

    def drop_replica(self, topic: str, topic_id: UUID, index: int, *, is_open: bool = True) -> bool:
        """Delete the folder of a replica that was moved to another broker and that nothing here uses any more. False: not now.
        `is_open` False: nothing here has opened it since the start.
        """
        drop = self._logs.drop if is_open else self._logs.drop_old

        def dropped(folders: list[Path]) -> None:
            if folders:
                log.info("replica_removed", topic=topic, partition=index)
                self._dispose(partial(_erase, folders))

        def failed(error: Exception) -> None:
            log.error("replica_not_removed", topic=topic, partition=index, why=str(error), what_to_do="delete its folder")

        return self._worker.submit(lambda: drop(topic, topic_id, index), dropped, failed)

    @property
    def _broker_ids(self) -> set[int]:
        return {self._broker_id, *self.catalog.brokers}

    # -- several topics at a time: the job on the worker thread, its results on the loop thread ---

    def _create(self, wanted: Sequence["_Creation"]) -> tuple[dict[str, Outcome], ClusterView]:
        return self._logs.create({one.topic: (one.replicas, one.config) for one in wanted})

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
                    break  # named twice: the second deletion runs after the first
                some[one.topic] = one.topic_id
            outcomes += self._logs.unregister(some).values()
        return outcomes

    def _unregistered(self, deletions: Sequence["_Deletion"], outcomes: Sequence[Outcome]) -> None:
        results = list(zip(deletions, outcomes, strict=True))
        # A deletion by an unknown id proves nothing about the topic that has the name.
        gone = (one.topic for one, outcome in results if outcome is True or (outcome is False and one.topic_id is None))
        self._remove(list(dict.fromkeys(gone)), "deleted")
        for one, outcome in results:
            one.done(outcome)

    def _not_unregistered(self, deletions: Sequence["_Deletion"], error: Exception) -> None:
        for one in deletions:
            one.done(error)

    def _set_aside(self, going: Sequence["_Going"]) -> dict[str, list[Path] | Exception]:
        return self._logs.set_aside({one.topic: one.why for one in going})

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
        self.refresh()  # topics of these names may have been registered again meanwhile

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
        waiting = self._creating.pop(topic, [])

        def tell() -> None:
            for done in waiting:
                done(outcome)

        if outcome is True:
            self._when_ready(topic, tell)
        else:
            tell()

    def _refreshed(self, seen: ClusterView) -> None:
        self._take_in(seen)
        self._refresh_ended()

    def _refresh_ended(self) -> None:
        self._is_refreshing = False
        if self._refresh_again:
            self._refresh_again = False
            self._look_again()

    def _take_in(self, seen: ClusterView, *, is_whole: bool = True) -> None:
        """Put a view into the tables. When it is not the whole cluster, topics that it does not name stay."""
        if not is_whole:
            if any(self._read.get(name) is not entry for name, entry in seen.topics.items()):
                self._show_topics({**self._read, **seen.topics})
        elif seen.topics != self._read or seen.brokers != self.catalog.brokers:
            self._remove([name for name in self._read if name not in seen.topics], "gone")
            self.catalog = replace(self.catalog, brokers=seen.brokers)
            self._show_topics(seen.topics)
        for (topic, index), (opened_log, settings) in seen.opened.items():
            if isinstance(opened_log, ReplicaLog):
                if self._replication is not None:
                    entry = self._read[topic]
                    single = self._table.get(topic, index)
                    if single is not None and not single.is_replicated:
                        self._table.remove(single)  # it gets more replicas: what waits for it asks again
                    self._replication.open(entry, index, opened_log, settings)
                continue
            present = self._table.get(topic, index)
            if present is None:
                self._table.add(Partition(topic, index, opened_log, settings, self._ask_flush))
            elif present.settings is not settings:
                present.log.config = log_config(settings)
                present.configure(settings)

    def _show_topics(self, topics: Mapping[str, TopicEntry]) -> None:
        """Put topics that were read into the catalog, with the states of their replicas."""
        before, known = self._read, self.catalog.topics
        shown = {
            name: known[name] if before.get(name) is entry and name in known else self._with_states(entry)
            for name, entry in topics.items()
        }
        self._read = topics
        self.catalog = replace(self.catalog, topics=shown)
        if self._replication is not None:
            self._replication.watch_topics(topics)

    def _with_states(self, entry: TopicEntry) -> TopicEntry:
        if all(len(replicas) <= 1 for replicas in entry.partitions.values()):
            return entry
        found = ((index, self._states.get((entry.topic_id, index))) for index in entry.partitions)
        return replace(entry, states={index: state for index, state in found if state is not None})

    def note_states(self, states: Mapping[tuple[UUID, int], ReplicaView | None]) -> None:
        """Put what was read of replicas' nodes into the catalog; None: there is no node."""
        changed: set[UUID] = set()
        for key, state in states.items():
            if self._states.get(key) != state:
                changed.add(key[0])
                if state is None:
                    del self._states[key]
                else:
                    self._states[key] = state
        if changed:
            renewed = {name: self._with_states(entry) for name, entry in self._read.items() if entry.topic_id in changed}
            self.catalog = replace(self.catalog, topics={**self.catalog.topics, **renewed})

    def _remove(self, topics: Collection[str], why: str) -> None:
        """Stop serving the topics. Then, when nothing on the loop uses their logs any more, have them closed and set aside."""
        if not topics:
            return
        left, read = dict(self.catalog.topics), dict(self._read)
        for topic in topics:
            left.pop(topic, None)
            read.pop(topic, None)
        self._read = read
        self.catalog = replace(self.catalog, topics=left)
        if self._replication is not None:
            self._replication.watch_topics(read)
        for topic in topics:
            if self._replication is not None:
                self._replication.forget(topic)
            removed = self._table.remove_topic(topic)
            if removed:
                log.info("topic_removed", topic=topic, partitions=len(removed), data=why)
            self._jobs.put(self._setting_aside, _Going(topic, why), cost=len(removed), is_required=True)


def _erase(folders: Sequence[Path]) -> None:
    """Delete the folders with their content. Raises: the OSError of the last that cannot be deleted, after all others are."""
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
    replicas: ReplicaAssignment
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
