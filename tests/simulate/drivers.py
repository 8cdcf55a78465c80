"""Three brokers' drivers in one process, on real logs: disk jobs, messages and ZooKeeper's answers come when the test says so.

What the drivers do is what they do in a broker; messages are encoded and decoded. ZooKeeper is the dictionary of the simulation.
"""

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from headrace.broker.log import PartitionLog, topic_note
from headrace.broker.partitions.open_logs import log_config
from headrace.broker.partitions.partition import Fault, PartitionTable
from headrace.broker.partitions.replica_lives import ReplicaLives
from headrace.broker.partitions.replica_log import open_replica
from headrace.broker.replicas import messages, rest
from headrace.broker.replicas.driver import ReplicaDriver
from headrace.broker.replicas.machine_runner import noted_in
from headrace.broker.replicas.messages import Answer, Refusal, Sender
from headrace.broker.replication.facts import ReplicaFetch
from headrace.broker.replication.replica import Replica
from headrace.broker.replication.state import NO_LEADER, State
from headrace.broker.replication.suspicion import Signs
from headrace.broker.replication.swaps import Swap
from headrace.broker.settings import topic_settings
from headrace.wire.batch.record_batch import iter_batches, iter_records

from .real_log import bytes_of
from .zookeeper import DictionaryZooKeeper

TOPIC_ID = UUID(int=(1 << 126) + 77)
KEY = (TOPIC_ID, 0)
WORD = messages.topic_word(TOPIC_ID)
BROKERS = (1, 2, 3)
WALL_MS = 1_800_000_000_000
SETTINGS = topic_settings.settings_of({"segment.bytes": "14000"}, {})

Job = tuple[Callable[[], Any], Callable[[Any], None], Callable[[Exception], None]]


class StartNumbers:
    """The start numbers of the dictionary."""

    def __init__(self, zookeeper: DictionaryZooKeeper) -> None:
        self._zookeeper = zookeeper

    def start_number(self, broker_id: int) -> int:
        return self._zookeeper.starts.get(broker_id, 0)

    def raise_start_number(self, broker_id: int, known: int) -> int:
        return self._zookeeper.start(broker_id)


class PlayedBroker:
    """One process of a broker with one replica: the `World` of its driver."""

    def __init__(self, cluster: "PlayedCluster", broker_id: int) -> None:
        self.cluster, self.broker_id = cluster, broker_id
        self.data = cluster.folder / f"broker-{broker_id}"
        self.data.mkdir(exist_ok=True)
        self.table = PartitionTable()
        self.jobs: list[Job] = []
        self.flushes: list[Any] = []
        self.due: list[Callable[[], None]] = []
        self.ticks = 0
        self.lives = ReplicaLives(self.data, broker_id, boot=lambda: b"boot").begin(StartNumbers(cluster.zookeeper))
        self.driver = self._opened()
        self.driver.start()
        self.turn()

    def _opened(self) -> ReplicaDriver:
        folder, config = self.data / "events-0", log_config(SETTINGS)
        log = PartitionLog.open(folder, topic="events", partition=0, config=config, now_ms=WALL_MS)
        topic_note.write(folder, TOPIC_ID, is_durable=False)
        replica = open_replica(log, TOPIC_ID, lambda: self.wall_ms)
        machine = Replica(
            topic_id=WORD,
            broker_id=self.broker_id,
            start_number=self.lives.start_number,
            lives=self.lives.of_folder(replica.noted.token),
            min_insync_replicas=2,
            silent_ms=2_000,
            log=replica.facts(with_crc=True),
            noted=noted_in(replica.noted),
            now_ms=self.now_ms,
        )
        return ReplicaDriver(self, KEY, "events", 0, replica, SETTINGS, machine, replica_count=3)

    # -- the driver's world ------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.cluster.now_ms

    @property
    def wall_ms(self) -> int:
        self.cluster.walls += 1
        return WALL_MS + self.cluster.walls

    def polling(self) -> frozenset[int]:
        return frozenset(self.cluster.brokers.keys() - {self.broker_id})

    def at_turn_end(self, function: Callable[[], None]) -> None:
        self.due.append(function)

    def on_disk(self, job: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[Exception], None]) -> bool:
        self.jobs.append((job, done, failed))
        return True

    behind_upkeep = on_disk

    def ask_flush(self, target: Any, within_ms: int) -> None:
        self.flushes.append(target)

    def forget_flush(self, target: Any) -> None:
        self.flushes.clear()

    def flush_has_failed(self) -> None:
        self.lives.flush_failed()

    def read_node(self, driver: ReplicaDriver) -> None:
        self.cluster.later(self, lambda: driver.node_read(self.cluster.zookeeper.node(WORD)))

    def ask_swap(self, driver: ReplicaDriver, swap: Swap) -> None:
        def answered() -> None:
            answer = self.cluster.zookeeper.swap(WORD, swap)
            self.cluster.later(self, lambda: driver.swap_answered(swap, answer))
            for other in self.cluster.brokers.values():
                if other is not self:
                    other.read_node(other.driver)

        self.cluster.later(self, answered)

    def send_fetch(self, driver: ReplicaDriver, to: int, fetch: ReplicaFetch) -> None:
        sender = Sender(self.broker_id, self.lives.start_number, 1)
        body = messages.encode_tell(sender, [(KEY, fetch)])
        self.cluster.send(to, lambda leader: leader.take_tell(body))

    def has_answer(self, driver: ReplicaDriver, to: int) -> None:
        made = driver.answer_for(to, 500)
        if made is not None:
            self._answer(to, messages.encode_answer(made[0]))
            if made[1]:
                self.due.append(lambda: self.has_answer(driver, to))

    def refuse(self, driver: ReplicaDriver, to: int, leader_epoch: int) -> None:
        self._answer(to, messages.encode_refusal(Refusal(KEY, leader_epoch)))

    def hand_over(self, driver: ReplicaDriver, to: int, leader_epoch: int) -> None:
        return

    def forget_messages(self, driver: ReplicaDriver) -> None:
        return

    def _answer(self, to: int, encoded: bytes) -> None:
        body = messages.encode_response([encoded])
        self.cluster.send(to, lambda follower: follower.take_response(body))

    # -- what arrives ------------------------------------------------------------------------------

    def take_tell(self, body: bytes) -> None:
        for _, fetch in messages.decode_tell(memoryview(body))[1]:
            self.driver.take_fetch(fetch)

    def take_response(self, body: bytes) -> None:
        for message in messages.decode_response(memoryview(body)):
            if isinstance(message, Answer):
                self.driver.take_answer(message)
            else:
                self.driver.take_refusal(message.leader_epoch)

    def turn(self) -> None:
        """End the loop's turn."""
        while self.due:
            due, self.due = self.due, []
            for function in due:
                function()

    def run_job(self, which: int = 0, *, is_full: bool = False) -> None:
        """`is_full`: the disk has no room, so the job fails."""
        if self.jobs:
            job, done, failed = self.jobs.pop(which % len(self.jobs))
            try:
                if is_full:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                result = job()
            except Exception as error:
                failed(error)
            else:
                done(result)
            self.turn()

    def run_flush(self) -> None:
        if self.flushes and not self.driver.machine.is_cutting:
            self.flushes.clear()
            job = self.driver.log.flush_job()
            if job is not None:
                job.run()
                job.done()
            self.driver.flushed()
            self.turn()

    def suspect(self) -> None:
        node = self.driver.node
        if node is None:
            return
        leader = self.cluster.brokers.get(node.leader)
        is_same = leader is not None and leader.lives.start_number == node.start_number and leader is not self
        signs = Signs(answers_fetches=is_same, is_port_refusing=leader is None, is_registered=is_same)
        self.driver.suspect(signs, frozenset(set(BROKERS) - self.cluster.brokers.keys()))
        self.turn()

    def content(self) -> bytes:
        """Return the bytes of all segment files."""
        return b"".join(path.read_bytes() for path in sorted((self.data / "events-0").glob("*.log")))

    def values(self) -> list[int]:
        """Return the values in the log, in order."""
        log, found = self.driver.log, []
        offset = log.log_start_offset
        while offset < log.log_end_offset and (region := log.read(offset, 1 << 20)) is not None:
            for header, data in iter_batches(region.read()):
                found += [int(record.value or b"-1") for record in iter_records(data)]
                offset = header.next_offset
        return found


class PlayedCluster:
    """`brokers` has the running ones."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.now_ms = 1_000
        self.walls = 0
        self.zookeeper = DictionaryZooKeeper()
        self.zookeeper.history[WORD] = [State(replicas=BROKERS)]
        self.messages: list[tuple[PlayedBroker, Callable[[PlayedBroker], None]]] = []
        self.brokers: dict[int, PlayedBroker] = {}
        self.acknowledged: set[int] = set()
        self.refused: dict[int, Fault] = {}
        self.of_one: set[int] = set()
        """Values that only the leader was to acknowledge."""
        self.next_value = 0
        for broker_id in BROKERS:
            self.start(broker_id)

    def start(self, broker_id: int) -> None:
        self.brokers[broker_id] = PlayedBroker(self, broker_id)

    def kill(self, broker_id: int) -> None:
        gone = self.brokers.pop(broker_id)
        self.messages = [each for each in self.messages if each[0] is not gone]

    def later(self, broker: PlayedBroker, function: Callable[[], None]) -> None:
        self.messages.append((broker, lambda _: function()))

    def send(self, to: int, deliver: Callable[[PlayedBroker], None]) -> None:
        if to in self.brokers:
            self.messages.append((self.brokers[to], deliver))

    def deliver(self, which: int = 0) -> None:
        if self.messages:
            broker, deliver = self.messages.pop(which % len(self.messages))
            deliver(broker)
            broker.turn()

    def tick(self) -> None:
        self.now_ms += 250
        for broker in list(self.brokers.values()):
            if not broker.driver.rest.is_on or self.now_ms // 250 % rest.EVERY == 0:
                broker.driver.tick()
                broker.ticks += 1
            broker.turn()

    def leader(self) -> PlayedBroker | None:
        return next((each for each in self.brokers.values() if each.driver.leads), None)

    def produce(self, acks: int = -1) -> int | None:
        """Append a value at a leader; return it, None when there is no leader or it refuses."""
        leader = self.leader()
        partition = None if leader is None else leader.table.get("events", 0)
        if leader is None or partition is None or partition.why_no_append(acks) is not None:
            return None
        value = self.next_value
        self.next_value += 1
        if acks == 1:
            self.of_one.add(value)
        batch = bytes_of(value)
        partition.log.append(batch, WALL_MS, leader_epoch=partition.leader_epoch)
        partition.appended(1, len(batch))

        def done(fault: Fault | None) -> None:
            if fault is None:
                self.acknowledged.add(value)
            else:
                self.refused[value] = fault

        partition.when_acknowledged(partition.log.log_end_offset, acks, 10_000, done)
        leader.turn()
        return value

    def settle(self, rounds: int = 40) -> None:
        """Let everything finish that is under way."""
        for _ in range(rounds):
            self.tick()
            for _ in range(400):
                busy = [each for each in self.brokers.values() if each.jobs or each.flushes]
                if not self.messages and not busy:
                    break
                self.deliver()
                for broker in busy:
                    broker.run_job()
                    broker.run_flush()
            for broker in list(self.brokers.values()):
                broker.suspect()

    def is_whole(self) -> bool:
        node = self.zookeeper.node(WORD)
        return node is not None and node.leader != NO_LEADER and len(node.members) == 3 and self.leader() is not None
