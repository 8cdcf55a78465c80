"""All replicas of this broker: reads and swaps their nodes, connects to leaders, notices leaders that do not answer.

Lives on the loop thread. ZooKeeper is asked on a thread of its own, so that takeovers do not wait behind the creation of topics:
all swaps and reads that are due go in one job. At rest, ZooKeeper is not asked at all: nodes are watched.
"""

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from ...coordination.errors import CoordinationError
from ...coordination.replica_states import Key, ReplicaState, ReplicaStates, SwapOutcome
from ...runtime.logs import get_logger
from ...runtime.rate_limited_log import RateLimitedLog
from ..event_loop.loop import Loop
from ..event_loop.worker import Worker
from ..partitions.catalog import Catalog, ReplicaView, TopicEntry
from ..partitions.checkpoints import Checkpoints
from ..partitions.flush_scheduler import Flushable
from ..partitions.maintenance import Maintenance
from ..partitions.other_brokers import Connect
from ..partitions.partition import AskFlush, PartitionTable
from ..partitions.replica_lives import ReplicaLives
from ..partitions.replica_log import ReplicaLog
from ..replication.facts import ReplicaFetch
from ..replication.replica import Replica
from ..replication.state import NO_LEADER, State
from ..replication.suspicion import Signs
from ..replication.swaps import Swap
from ..settings.topic_settings import TopicSettings, min_insync
from . import rest
from .asking import Peers
from .driver import ReplicaDriver
from .followers import Followers
from .handing_over import HandOvers
from .leaders import Link
from .machine_runner import noted_in
from .messages import Answer, Refusal, topic_word
from .states import ANSWERS, state_of, view_of, wanted_swap
from .world import Done, Failed

log = get_logger(__name__)

TICK_MS = 250
NEXT_IN_LINE_MS = 1_000
"""A partition that never had a leader gets the first of its replicas; the second one waits so long for it, the third twice."""
TAKES_MS = 500
"""When a leader is dead, the first member in the list of replicas takes over; the next one waits so long for it, and so on.
If all tried at once, all but one would ask ZooKeeper for nothing, when it has most to do.
"""
MOST_AT_ONCE = 2_000
"""Swaps, and nodes to read, of one job."""
NOTE_AGAIN_MS = 1_000
"""After a failed flush could not be noted."""
RESIGNED = -1
"""The epoch that a leader tells which has stopped: another replica is to take over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """Where slow work runs."""

    states: Worker
    """ZooKeeper."""
    notes: Worker
    """Short writes that the machine waits for. Several threads."""
    connections: Worker


@dataclass(slots=True)
class _Looked:
    outcomes: list[SwapOutcome]
    found: dict[Key, ReplicaState]
    unread: CoordinationError | None = None


class Replicas:
    """See the module. What has no underscore runs on the loop thread, except `open` before the start."""

    def __init__(
        self,
        *,
        loop: Loop,
        broker_id: int,
        states: ReplicaStates,
        lives: ReplicaLives,
        table: PartitionTable,
        maintenance: Maintenance,
        checkpoints: Checkpoints,
        threads: Threads,
        connect: Connect,
        catalog: Callable[[], Catalog],
        note_states: Callable[[Mapping[Key, ReplicaView | None]], None],
        wall_ms: Callable[[], int],
        silent_ms: int,
        peers: Peers | None = None,
    ) -> None:
        """`note_states` takes what is newly known of the cluster's partitions; `silent_ms`: a follower that was not heard for so
        long is removed from the set.
        """
        self.broker_id = broker_id
        self.table = table
        self.ask_flush: AskFlush = maintenance.flush
        self.followers = Followers(loop, self.find, lambda: self._drivers.values())
        self._loop, self._states, self._lives = loop, states, lives
        self._maintenance, self._checkpoints, self._threads, self._connect = maintenance, checkpoints, threads, connect
        self._catalog, self._note_states, self._wall_ms, self._silent_ms = catalog, note_states, wall_ms, silent_ms
        self._drivers: dict[Key, ReplicaDriver] = {}
        self._links: dict[int, Link] = {}
        self._connection_numbers = itertools.count(1)
        self._watches: dict[Key, Callable[[], None]] = {}
        self._entries: dict[str, TopicEntry] = {}
        """The topics whose partitions are watched."""
        self._to_read: set[Key] = set()
        self._to_swap: list[tuple[ReplicaDriver, Swap]] = []
        self._is_asking = False
        self._is_running = self._is_leaving = False
        self._hand_overs = None if peers is None else HandOvers(loop, peers, self.drivers)
        self._round = 0
        self._leaderless_since: dict[Key, int] = {}
        self._suspected_since: dict[Key, tuple[int, int]] = {}
        """The leader epoch, and since when its leader is taken for dead."""
        self._resigned: dict[Key, int] = {}
        """The epoch of a leader that has told that it stopped."""
        self._faults = RateLimitedLog(log, lambda: loop.now_ms)

    # -- topics ------------------------------------------------------------------------------------

    def open(self, entry: TopicEntry, index: int, replica_log: ReplicaLog, settings: TopicSettings) -> None:
        """Run the replica of this log, or give it its settings."""
        key, replica_count = (entry.topic_id, index), len(set(entry.partitions[index]))
        driver = self._drivers.get(key)
        if driver is not None:
            driver.configure(settings)
            return
        machine = Replica(
            topic_id=topic_word(entry.topic_id),
            broker_id=self.broker_id,
            start_number=self._lives.start_number,
            lives=self._lives.of_folder(replica_log.noted.token),
            min_insync_replicas=min_insync(settings.min_insync_replicas, replica_count),
            acks_on_disk=settings.acks_on_disk,
            silent_ms=self._silent_ms,
            log=replica_log.facts(with_crc=True),
            noted=noted_in(replica_log.noted),
            now_ms=self._loop.now_ms,
        )
        driver = self._drivers[key] = ReplicaDriver(
            self, key, entry.name, index, replica_log, settings, machine, replica_count=replica_count
        )
        if self._is_running:
            driver.start()

    def forget(self, topic: str) -> None:
        """The topic is gone here: end its replicas."""
        for key, driver in list(self._drivers.items()):
            if driver.topic == topic:
                self.remove(key)

    def watch_topics(self, topics: Mapping[str, TopicEntry]) -> None:
        """Watch the nodes of these topics' partitions, and of no other."""
        for name in [one for one in self._entries if one not in topics]:
            self._unwatch(self._entries.pop(name), {})
        for name, entry in topics.items():
            before = self._entries.get(name)
            if before is entry:
                continue
            if before is not None:
                self._unwatch(before, entry.partitions if before.topic_id == entry.topic_id else {})
            self._entries[name] = entry
            for index, replicas in entry.partitions.items():
                key = (entry.topic_id, index)
                if len(replicas) > 1 and key not in self._watches:
                    changed = partial(self._loop.post, partial(self._changed, key))
                    self._watches[key] = self._states.watch(*key, changed)

    def _unwatch(self, entry: TopicEntry, kept: Mapping[int, Any]) -> None:
        gone = [(entry.topic_id, index) for index in entry.partitions if index not in kept]
        for key in gone:
            if (end := self._watches.pop(key, None)) is not None:
                end()

    # -- start and stop ----------------------------------------------------------------------------

    def start(self) -> None:
        self._is_running = True
        for driver in list(self._drivers.values()):
            driver.start()
        self._tick()

    def end(self) -> None:
        """The broker stops: answer what waits, lead nothing any more."""
        self._is_running = False
        for driver in self._drivers.values():
            driver.end()
        for link in self._links.values():
            link.close()
        self._links.clear()

    def take_over(self, key: Key, leader_epoch: int | None = None, *, leader_stops: bool = False) -> bool:
        """Begin to lead a partition of whose in-sync set this broker is a member. Return False when it is none, or leads already.
        The present leader learns it from the node; what it had not acknowledged is refused there, and sent again.
        `leader_epoch`: of the leader that asks; None: an operator asks. `leader_stops`: the leader leaves the set, too.
        """
        driver = self._drivers.get(key)
        if self._is_leaving or driver is None or driver.node is None:
            return False
        return driver.take_over(driver.node.leader_epoch if leader_epoch is None else leader_epoch, leader_stops=leader_stops)

    def leave(self, done: Callable[[int], None], within_ms: int) -> None:
        """Before a stop: hand over what is led here and take nothing over. Then `done` gets how many leaderships are left."""
        self._is_leaving = True
        if self._hand_overs is None:
            done(0)
        else:
            self._hand_overs.leave(done, within_ms)

    def drivers(self) -> list[ReplicaDriver]:
        """Return the replicas that are kept here."""
        return list(self._drivers.values())

    def count_stopped(self) -> int:
        """Return how many replicas here have stopped. From any thread."""
        return sum(driver.has_stopped for driver in self.drivers())

    def remove(self, key: Key) -> None:
        """End a replica: another broker keeps it now."""
        driver = self._drivers.pop(key)
        driver.end()
        for noted in (self._leaderless_since, self._suspected_since, self._resigned):
            noted.pop(key, None)

    @property
    def start_number(self) -> int:
        return self._lives.start_number

    def find(self, key: Key) -> ReplicaDriver | None:
        """Return the replica of a partition that is kept here."""
        return self._drivers.get(key)

    # -- what drivers need -------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self._loop.now_ms

    @property
    def wall_ms(self) -> int:
        return self._wall_ms()

    def polling(self) -> frozenset[int]:
        return self.followers.polling()

    def at_turn_end(self, function: Callable[[], None]) -> None:
        self._loop.at_turn_end(function)

    def on_disk(self, job: Callable[[], Any], done: Done, failed: Failed) -> bool:
        return self._threads.notes.submit(job, done, failed)

    def behind_upkeep(self, job: Callable[[], Any], done: Done, failed: Failed) -> bool:
        return self._checkpoints.run_behind(job, done, failed)

    def forget_flush(self, target: Flushable) -> None:
        self._maintenance.forget_flush(target)

    def flush_has_failed(self) -> None:
        """Note it, and try until that has succeeded: without the note, the next start would trust this folder."""

        def failed(error: Exception) -> None:
            self._faults.error("replica_lives_not_noted", why=str(error))
            if self._is_running:
                self._loop.call_at(self._loop.now_ms + NOTE_AGAIN_MS, self.flush_has_failed)

        if not self._threads.notes.submit(self._lives.flush_failed, lambda _: None, failed):
            failed(OSError("too much waits for the disk already"))

    def read_node(self, driver: ReplicaDriver) -> None:
        self._changed(driver.key)

    def look_at_node(self, driver: ReplicaDriver, done: Callable[[State | None], None]) -> None:
        self.read_state(driver.key, done)

    def read_state(self, key: Key, done: Callable[[State | None], None]) -> None:
        """Read the node of any partition. `done` gets None when there is none, or ZooKeeper does not answer."""

        def read(found: ReplicaState | None) -> None:
            done(None if found is None else state_of(found))

        def failed(error: Exception) -> None:
            self._faults.warning("replica_states_not_read", why=str(error))
            done(None)

        if not self._threads.states.submit(lambda: self._states.read(*key), read, failed):
            failed(OSError("too many calls to ZooKeeper wait already"))

    def ask_swap(self, driver: ReplicaDriver, swap: Swap) -> None:
        self._to_swap.append((driver, swap))
        self._ask_soon()

    def send_fetch(self, driver: ReplicaDriver, to: int, fetch: ReplicaFetch) -> None:
        link = self._links.get(to)
        if link is None:
            link = self._links[to] = Link(
                self._loop,
                self._threads.connections,
                self._connect,
                self,
                to,
                (self.broker_id, self._lives.start_number),
                self._connection_numbers,
            )
            link.try_to_connect(self._catalog().brokers.get(to))
        link.tell(driver.key, fetch)

    def has_answer(self, driver: ReplicaDriver, to: int) -> None:
        self.followers.has_answer(driver, to)

    def refuse(self, driver: ReplicaDriver, to: int, leader_epoch: int) -> None:
        self.followers.refuse(driver, to, RESIGNED if driver.has_stopped else leader_epoch)

    def hand_over(self, driver: ReplicaDriver, to: int, leader_epoch: int) -> None:
        if self._hand_overs is not None:
            self._hand_overs.ask(driver.key, to, leader_epoch)

    def forget_messages(self, driver: ReplicaDriver) -> None:
        self.followers.forget(driver)
        for link in self._links.values():
            link.forget(driver.key)

    # -- what leaders answer -----------------------------------------------------------------------

    def answered(self, message: Answer | Refusal) -> None:
        driver = self._drivers.get(message.key)
        if driver is None:
            return
        if isinstance(message, Answer):
            driver.take_answer(message)
            return
        if message.leader_epoch == RESIGNED and driver.following is not None:
            self._resigned[driver.key] = driver.following.leader_epoch
        driver.take_refusal(message.leader_epoch)

    def connected(self, broker_id: int) -> None:
        for driver in self._following(broker_id):
            driver.tick()

    def lost(self, broker_id: int, *, is_refused: bool) -> None:
        link = self._links.get(broker_id)
        if link is None:
            return
        if is_refused:
            for driver in self._following(broker_id):
                self._suspect(driver)
        else:
            link.try_to_connect(self._catalog().brokers.get(broker_id))

    def _following(self, broker_id: int) -> list[ReplicaDriver]:
        found = []
        for driver in self._drivers.values():
            role = driver.following
            if role is not None and role.leader == broker_id:
                found.append(driver)
        return found

    # -- time --------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if not self._is_running:
            return
        self._loop.call_at(self._loop.now_ms + TICK_MS, self._tick)
        brokers = self._catalog().brokers
        used: set[int] = set()
        answering = {broker_id for broker_id, link in self._links.items() if link.answers and broker_id in brokers}
        self._round += 1
        for place, driver in enumerate(list(self._drivers.values())):
            is_at_rest = driver.rest.is_on
            if not is_at_rest or (self._round + place) % rest.EVERY == 0:
                driver.tick()
            role = driver.following
            if role is not None:
                used.add(role.leader)
                if not is_at_rest or role.leader not in answering:
                    self._suspect(driver)
        for broker_id, link in list(self._links.items()):
            if broker_id in used:
                link.try_to_connect(brokers.get(broker_id))
            else:
                link.close()
                del self._links[broker_id]
        self.followers.look_for_lost()
        self._ask_soon()

    def _suspect(self, driver: ReplicaDriver) -> None:
        """Tell the machine when its leader does not answer."""
        role, node = driver.following, driver.node
        if role is None or node is None:
            return
        brokers, leader = self._catalog().brokers, role.leader
        if leader == NO_LEADER:
            since_ms = self._leaderless_since.setdefault(driver.key, self._loop.now_ms)
            place = node.replicas.index(self.broker_id) if self.broker_id in node.replicas else len(node.replicas)
            if self._loop.now_ms - since_ms < place * NEXT_IN_LINE_MS:
                return
            signs = Signs(answers_fetches=False, is_port_refusing=False, is_registered=False)
        elif leader == self.broker_id:  # an earlier start of this broker
            signs = Signs(answers_fetches=False, is_port_refusing=False, is_registered=False)
        else:
            link, there = self._links.get(leader), brokers.get(leader)
            is_same = there is not None and there.start_number in (0, node.start_number)
            if self._resigned.get(driver.key) == role.leader_epoch:
                is_same = False
            signs = Signs(
                answers_fetches=is_same and link is not None and link.answers,
                is_port_refusing=link is not None and link.is_refused,
                is_registered=is_same,
            )
            if link is not None and link.answers and there is None:
                return  # it answers, and only its registration is missing: ZooKeeper may be the one that is away
        if signs.answers_fetches:
            return
        dead = {one for one in node.copies if one not in brokers and not self._answers(one)}
        dead |= {one for one, link in self._links.items() if link.is_refused}
        dead -= {self.broker_id}
        if leader != NO_LEADER and (turn := place_in_line(node, self.broker_id, dead)):
            epoch, since_ms = self._suspected_since.get(driver.key, (-1, 0))
            if epoch != role.leader_epoch:
                since_ms = self._loop.now_ms
                self._suspected_since[driver.key] = role.leader_epoch, since_ms
            if self._loop.now_ms - since_ms < turn * TAKES_MS:
                return
        driver.suspect(signs, frozenset(dead))

    def _answers(self, broker_id: int) -> bool:
        link = self._links.get(broker_id)
        return broker_id == self.broker_id or (link is not None and link.answers)

    # -- ZooKeeper ---------------------------------------------------------------------------------

    def _changed(self, key: Key) -> None:
        self._to_read.add(key)
        self._ask_soon()

    def _ask_soon(self) -> None:
        if not self._is_asking and (self._to_read or self._to_swap):
            self._is_asking = True
            self._loop.at_turn_end(self._ask)

    def _ask(self) -> None:
        swaps, self._to_swap = self._to_swap[:MOST_AT_ONCE], self._to_swap[MOST_AT_ONCE:]
        keys = set(list(self._to_read)[:MOST_AT_ONCE])
        self._to_read -= keys
        missing: dict[UUID, dict[int, tuple[int, ...]]] = {}
        for key in keys:
            driver = self._drivers.get(key)
            if driver is not None and driver.machine.noted.version < 0 and driver.node is None:
                entry = self._catalog().topics.get(driver.topic)
                if entry is not None and entry.topic_id == key[0] and key[1] in entry.partitions:
                    missing.setdefault(key[0], {})[key[1]] = entry.partitions[key[1]]
        wanted = [wanted_swap(driver.key, swap) for driver, swap in swaps]

        def look() -> _Looked:
            looked = _Looked(self._states.swap_each(wanted) if wanted else [], {})
            try:
                looked.found = self._states.read_many(keys)
                made = False
                for topic_id, partitions in missing.items():
                    absent = {index: ids for index, ids in partitions.items() if (topic_id, index) not in looked.found}
                    if absent:
                        self._states.create_missing(topic_id, absent)
                        made = True
                if made:
                    looked.found = self._states.read_many(keys)
            except CoordinationError as error:
                looked.unread = error
            return looked

        def done(looked: _Looked) -> None:
            self._is_asking = False
            if looked.unread is not None:
                self._faults.warning("replica_states_not_read", why=str(looked.unread))
                self._to_read |= keys  # asked for again at the next tick
            else:
                self._seen(keys, looked.found)
            for (driver, swap), outcome in zip(swaps, looked.outcomes, strict=True):
                driver.swap_answered(swap, ANSWERS[outcome])
            if looked.unread is None:
                self._ask_soon()

        def failed(error: Exception) -> None:
            self._is_asking = False
            self._faults.error("replica_states_not_asked", why=str(error))
            self._to_read |= keys
            for driver, swap in swaps:
                driver.swap_answered(swap, ANSWERS[SwapOutcome.UNKNOWN])

        if not self._threads.states.submit(look, done, failed):
            failed(OSError("too many calls to ZooKeeper wait already"))

    def _seen(self, keys: set[Key], found: Mapping[Key, ReplicaState]) -> None:
        self._note_states({key: None if (read := found.get(key)) is None else view_of(read) for key in keys})
        for key in keys:
            driver = self._drivers.get(key)
            if driver is not None:
                read = found.get(key)
                if read is not None and read.leader != NO_LEADER:
                    self._leaderless_since.pop(key, None)
                driver.node_read(None if read is None else state_of(read))


def place_in_line(node: State, broker_id: int, dead: Collection[int]) -> int:
    """Return how many members come before this broker when the leader is dead: those alive before it in the list of replicas."""
    members = {member.broker_id for member in node.members} - {node.leader, *dead}
    before = itertools.takewhile(lambda one: one != broker_id, node.copies)
    return len(members.intersection(before))
