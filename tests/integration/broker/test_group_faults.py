"""Groups under faults: members killed and frozen, the broker killed during a rebalance, commits while ZooKeeper hangs. In
every case some member reads each record, and no committed offset goes back.
"""

import os
import signal
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.coordination.consumers import OffsetRegistry
from headrace.coordination.session import Session
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control
from tests.integration.broker.group_readers import (
    PARTITIONS,
    SETTINGS,
    KafkaPythonReader,
    Reader,
    described,
    kcat_member,
    members,
    produce,
    texts,
)
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, eventually
from tests.support.raw_kafka import RawClient
from tests.support.zookeeper import ZooKeeperProcess

GROUP, TOPIC = "g", "t"
COMMITTING = {"auto.commit.interval.ms": 100, "reconnect.backoff.max.ms": 200, "session.timeout.ms": 1_500}


@pytest.fixture
def chroot(zookeeper_address: str) -> str:
    return f"{zookeeper_address}/group-faults-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def broker(chroot: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", chroot, settings=SETTINGS) as running:
        admin = AdminClient({"bootstrap.servers": running.address, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(10)
        yield running


class Watch:
    """Reads the group's offsets in ZooKeeper repeatedly; `steps_back` must stay empty."""

    def __init__(self, zookeeper: str) -> None:
        self.offsets: dict[tuple[str, int], int] = {}
        self.steps_back: list[str] = []
        self._session = Session(zookeeper, name="watch").start()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def is_beyond(self, ends: Mapping[tuple[str, int], int]) -> bool:
        """Return whether an offset after each of these is committed. librdkafka commits the last record's offset plus one,
        which is before the end in a log of byte positions.
        """
        return all(self.offsets.get(position, 0) > end for position, end in ends.items())

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)
        self._session.close()

    def _run(self) -> None:
        registry = OffsetRegistry(self._session)
        while not self._stop.wait(0.02):
            for position, offset in registry.get_all(GROUP).items():
                if offset < self.offsets.get(position, 0):
                    self.steps_back.append(f"{position}: {self.offsets[position]} -> {offset}")
                self.offsets[position] = offset


@pytest.fixture
def watch(chroot: str, broker: BrokerProcess) -> Iterator[Watch]:
    watching = Watch(chroot)
    yield watching
    watching.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_whoever_dies_or_freezes_each_record_is_read_and_no_offset_goes_back(
    broker: BrokerProcess, watch: Watch, tmp_path: Path, strategy: str
) -> None:
    config: dict[str, Any] = {**COMMITTING, "partition.assignment.strategy": strategy}
    words = [f"{name}={value}" for name, value in config.items()]
    readers: list[Reader] = []
    kcats: list[Process] = []
    written: list[str] = []
    before: dict[tuple[str, int], int] = {}
    """Where the logs ended before the last writes."""

    def all_is_read() -> bool:
        got = {value for reader in readers for value in reader.values}
        return got.union(*(one.output().split() for one in kcats)) >= set(written)

    def writes(prefix: str) -> None:
        before.update(ends(broker))
        values = texts(prefix, 20 * PARTITIONS)
        produce(broker, TOPIC, values)
        written.extend(values)
        eventually(all_is_read, what=f"what was written {prefix} read")

    def member() -> Process:
        kcats.append(kcat_member(broker, GROUP, TOPIC, tmp_path, *words))
        return kcats[-1]

    def settles(number: int, share: int) -> None:
        eventually(lambda: len(members(broker, GROUP)) == number, what=f"a stable group of {number}")
        eventually(lambda: len(readers[0].partitions) == share, what="an even share")

    try:
        readers.append(Reader(broker, GROUP, TOPIC, **config))
        dying, freezing = member(), member()
        settles(3, 2)
        writes("at-first")
        dying.kill()
        writes("while-one-is-dead-and-nobody-knows")
        settles(2, 3)
        os.kill(freezing.pid, signal.SIGSTOP)
        settles(1, 6)
        writes("while-one-is-frozen")
        eventually(lambda: watch.is_beyond(before), what="commits of the other, for what the frozen one had too")
        os.kill(freezing.pid, signal.SIGCONT)
        settles(2, 3)
        writes("when-it-is-awake")
        readers.append(Reader(broker, GROUP, TOPIC, **config))
        eventually(lambda: described(broker, GROUP).group_state == "PreparingRebalance", every_ms=1, what="a rebalance under way")
        broker.kill()
        broker.restart()
        writes("after-the-brokers-death")
        settles(3, 2)
        eventually(lambda: watch.is_beyond(before), what="commits of what was written last")
        assert watch.steps_back == []
    finally:
        for kcat in kcats:
            kcat.kill()
        for reader in readers:
            reader.close()


def test_kafka_pythons_members_go_on_after_the_brokers_death(broker: BrokerProcess, watch: Watch) -> None:
    readers = [
        KafkaPythonReader(broker, GROUP, TOPIC, auto_commit_interval_ms=100, reconnect_backoff_max_ms=200) for _ in range(2)
    ]

    def have_read(values: list[str]) -> bool:
        return {value for reader in readers for value in reader.values} >= set(values)

    try:
        eventually(lambda: len(members(broker, GROUP)) == 2, what="two members")
        before, after = texts("before", 60), texts("after", 60)
        produce(broker, TOPIC, before)
        eventually(lambda: have_read(before), what="everything read before the death")
        broker.kill()
        broker.restart()
        end = ends(broker)
        produce(broker, TOPIC, after)
        eventually(lambda: have_read(after), what="everything read after the death")
        eventually(lambda: len(members(broker, GROUP)) == 2, what="two members again")
        eventually(lambda: watch.is_beyond(end), what="commits of what was written last")
        assert watch.steps_back == []
        assert described(broker, GROUP).group_state == "Stable", "they came back, and stay"
    finally:
        for reader in readers:
            reader.close()


def test_after_a_restart_old_members_are_unknown_and_the_durable_offsets_are_there_at_once(broker: BrokerProcess) -> None:
    with RawClient(broker.port) as client:
        name, generation = joined(client)
        assert committed(client, name, generation, 7) is ErrorCode.NONE
        broker.kill()
    broker.restart()
    with RawClient(broker.port) as client:
        assert fetched(client) == 7
        beat = {"group_id": GROUP, "generation_id": generation, "member_id": name, "group_instance_id": None}
        assert ErrorCode(int(client.ask(12, 4, beat).error_code)) is ErrorCode.UNKNOWN_MEMBER_ID
        assert committed(client, name, generation, 3) is ErrorCode.UNKNOWN_MEMBER_ID
        assert ErrorCode(int(client.ask(11, 7, join(name)).error_code)) is ErrorCode.UNKNOWN_MEMBER_ID
        other, generation = joined(client)
        assert other != name
        assert committed(client, name, generation, 3) is ErrorCode.UNKNOWN_MEMBER_ID
        assert fetched(client) == 7


def test_a_commit_under_a_hanging_zookeeper_is_not_acknowledged_and_not_waited_for_without_end(
    own_zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    address = f"{own_zookeeper.address}/own"
    settings = {**SETTINGS, "zookeeper.session.timeout.ms": 1_000}
    with BrokerProcess(tmp_path / "broker", address, settings=settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(10)
        with RawClient(broker.port, timeout_ms=30_000) as client, RawClient(broker.port, timeout_ms=30_000) as other:
            name, generation = joined(client)
            assert committed(client, name, generation, 5) is ErrorCode.NONE
            os.kill(own_zookeeper.pid, signal.SIGSTOP)
            try:
                other.send(8, 8, control.encode_request(8, 8, commit(name, generation, 6)))
                assert committed(client, name, generation, 7).retriable, (
                    "told within the client's patience, and not that it is done"
                )
                body = other.receive(8, 8)[1]
                assert ErrorCode(int(control.decode_response(8, 8, body).topics[0].partitions[0].error_code)).retriable
            finally:
                os.kill(own_zookeeper.pid, signal.SIGCONT)
            eventually(
                lambda: committed(client, *joined(client), 9) is ErrorCode.NONE, within_ms=40_000, what="commits durable again"
            )
            assert fetched(client) == 9
    session = Session(address, name="test").start()
    try:
        assert OffsetRegistry(session).get_all(GROUP) == {(TOPIC, 0): 9}
    finally:
        session.close()


def test_a_coordinator_that_wakes_up_after_it_was_replaced_commits_nothing(chroot: str, tmp_path: Path) -> None:
    settings = {**SETTINGS, "zookeeper.session.timeout.ms": 1_500}
    one, two = (BrokerProcess(tmp_path / str(number), chroot, broker_id=number, settings=settings) for number in (1, 2))
    with one as first, two as second:
        admin = AdminClient({"bootstrap.servers": first.address, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(10)
        old, new = (first, second) if coordinator(second) == first.port else (second, first)
        with RawClient(old.port, timeout_ms=30_000) as client:
            name, generation = joined(client)
            assert committed(client, name, generation, 1) is ErrorCode.NONE
            os.kill(old.pid, signal.SIGSTOP)
            try:
                client.send(8, 8, control.encode_request(8, 8, commit(name, generation, 5)))
                eventually(lambda: coordinator(new) == new.port, within_ms=30_000, what="the other broker coordinates the group")
                with RawClient(new.port) as other:
                    assert committed(other, *joined(other), 9) is ErrorCode.NONE
            finally:
                os.kill(old.pid, signal.SIGCONT)
            answer = control.decode_response(8, 8, client.receive(8, 8)[1])
        assert ErrorCode(int(answer.topics[0].partitions[0].error_code)) is ErrorCode.NOT_COORDINATOR
    session = Session(chroot, name="test").start()
    try:
        assert OffsetRegistry(session).get_all(GROUP) == {(TOPIC, 0): 9}
    finally:
        session.close()


def coordinator(broker: BrokerProcess) -> int:
    """Return the port of the broker that coordinates the group, as this broker says."""
    with RawClient(broker.port) as client:
        return int(client.ask(10, 3, {"key": GROUP, "key_type": 0}).port)


def ends(broker: BrokerProcess) -> dict[tuple[str, int], int]:
    """Return where each partition's log ends."""
    wanted = [{"partition_index": index, "current_leader_epoch": -1, "timestamp": -1} for index in range(PARTITIONS)]
    with RawClient(broker.port) as client:
        answer = client.ask(2, 5, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": TOPIC, "partitions": wanted}]})
    return {(TOPIC, int(one.partition_index)): int(one.offset) for one in answer.topics[0].partitions}


def join(name: str) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": name,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


def joined(client: RawClient) -> tuple[str, int]:
    """Make all members leave, join and sync alone; return member id and generation."""
    for one in client.ask(15, 5, {"groups": [GROUP], "include_authorized_operations": False}).groups[0].members:
        leaver = {"member_id": one.member_id, "group_instance_id": None, "reason": None}
        client.ask(13, 5, {"group_id": GROUP, "members": [leaver]})
    name = str(client.ask(11, 7, join("")).member_id)
    answer = client.ask(11, 7, join(name))
    share = {"group_id": GROUP, "generation_id": answer.generation_id, "member_id": name, "group_instance_id": None}
    shares = [{"member_id": name, "assignment": b"all"}]
    client.ask(14, 5, {**share, "protocol_type": "consumer", "protocol_name": "range", "assignments": shares})
    return name, int(answer.generation_id)


def commit(name: str, generation: int, offset: int) -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    member = {"generation_id_or_member_epoch": generation, "member_id": name, "group_instance_id": None}
    return {"group_id": GROUP, **member, "topics": [{"name": TOPIC, "partitions": [partition]}]}


def committed(client: RawClient, name: str, generation: int, offset: int) -> ErrorCode:
    return ErrorCode(int(client.ask(8, 8, commit(name, generation, offset)).topics[0].partitions[0].error_code))


def fetched(client: RawClient) -> int:
    wanted = {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}
    answer = client.ask(9, 8, {"groups": [wanted], "require_stable": False})
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)
