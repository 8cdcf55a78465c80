"""A full disk, a read-only folder, no free descriptor, no ZooKeeper: the broker keeps serving what it has, reports the fault,
and writes again when it can.
"""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.log.tools.check import check
from headrace.broker.log.tools.problem import ProblemKind
from headrace.wire.errors import ErrorCode
from tests.crash.load import create_topic, placed, read_all
from tests.crash.small_disk import SmallDisk
from tests.support.broker import BrokerProcess
from tests.support.processes import accepts, eventually
from tests.support.raw_kafka import RawClient, batch
from tests.support.zookeeper import ZooKeeperProcess

TOPICS = {"durable": {"flush.ack": "always", "segment.bytes": "200000"}, "plain": {"segment.bytes": "200000"}}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """The disk for the data of a `BrokerProcess` on `disk.folder.parent`."""
    mounted = SmallDisk(tmp_path / "data", mib=4)
    try:
        yield mounted
    finally:
        mounted.end()


class Writer:
    """Writes one batch after another to a topic, and remembers the acknowledged ones."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.acknowledged: dict[int, bytes] = {}
        self.why = ""

    def write(self, client: RawClient, size: int = 50_000) -> ErrorCode:
        data = batch(b"%d " % len(self.acknowledged) + bytes(size))
        answer = client.produce(self.topic, data)
        self.why = answer.error_message or ""
        if answer.error_code == 0:
            self.acknowledged[answer.base_offset] = placed(data, answer.base_offset)
        return ErrorCode(answer.error_code)

    def until_refused(self, client: RawClient, most: int = 300) -> ErrorCode:
        for _ in range(most):
            code = self.write(client)
            if code is not ErrorCode.NONE:
                return code
        raise AssertionError(f"{most} batches were taken")

    def all_is_there(self, *, and_more: bool = False) -> None:
        """Assert that everything acknowledged is there. `and_more`: batches refused because their fate was unknown may be
        there as well.
        """
        _, found = read_all(self.broker.port, self.topic, 0)
        if and_more:
            found = {offset: data for offset, data in found.items() if offset in self.acknowledged}
        assert found == self.acknowledged


def writers(broker: BrokerProcess) -> list[Writer]:
    for name, settings in TOPICS.items():
        create_topic(broker.port, name, 1, settings)
    return [Writer(broker, name) for name in TOPICS]


def no_problem(data: Path) -> None:
    for folder in (path for path in data.iterdir() if path.is_dir()):
        problems = [str(problem) for problem in check(folder) if problem.kind is not ProblemKind.SIDECAR_UNUSABLE]
        assert not problems, problems


@pytest.mark.needs("small disk")
def test_on_a_full_disk_writes_are_refused_reads_go_on_and_all_is_well_when_there_is_room_again(
    zookeeper_chroot: str, disk: SmallDisk
) -> None:
    with BrokerProcess(disk.folder.parent, zookeeper_chroot) as broker, RawClient(broker.port) as client:
        durable, plain = writers(broker)
        assert plain.write(client) is ErrorCode.NONE
        for writer in (durable, plain, durable):
            assert writer.until_refused(client) is ErrorCode.KAFKA_STORAGE_ERROR
            assert "No space left on device" in writer.why
        assert len(durable.acknowledged) > 20
        durable.all_is_there()
        plain.all_is_there()
        disk.throw_ballast_out()
        for writer in (durable, plain):
            eventually(lambda writer=writer: writer.write(client) is ErrorCode.NONE, what="room again")  # type: ignore[misc]
            writer.all_is_there()
        assert broker.stop() == 0
        no_problem(broker.data)


@pytest.mark.needs("small disk")
def test_a_broker_that_is_killed_on_a_full_disk_starts_on_it_and_serves_all_that_was_acknowledged(
    zookeeper_chroot: str, disk: SmallDisk
) -> None:
    with BrokerProcess(disk.folder.parent, zookeeper_chroot) as broker:
        durable, plain = writers(broker)
        with RawClient(broker.port) as client:
            plain.write(client)
            durable.until_refused(client)
            while plain.write(client, 100) is ErrorCode.NONE:
                pass
        broker.kill()
        broker.restart()
        durable.all_is_there()
        plain.all_is_there()
        with RawClient(broker.port) as client:
            assert durable.write(client) is ErrorCode.KAFKA_STORAGE_ERROR
            disk.throw_ballast_out()
            eventually(lambda: durable.write(client) is ErrorCode.NONE, what="room again")
        assert broker.stop() == 0
        no_problem(broker.data)


@pytest.mark.needs("small disk")
def test_a_folder_that_may_not_be_written_is_named_at_the_start(zookeeper_chroot: str, disk: SmallDisk) -> None:
    with BrokerProcess(disk.folder.parent, zookeeper_chroot) as broker:
        durable = writers(broker)[0]
        with RawClient(broker.port) as client:
            assert durable.write(client) is ErrorCode.NONE
        assert broker.stop() == 0
        disk.forbid_writing()
        broker.launch()
        assert broker.process.wait(20_000) != 0
        last = broker.log.splitlines()[-1]
        assert "Read-only file system" in last, last
        assert str(broker.data) in last
        assert "Traceback" not in broker.log
        disk.allow_writing()
        broker.restart()
        durable.all_is_there()


def test_without_descriptors_known_connections_are_served_and_all_is_well_when_there_are_some_again(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path, zookeeper_chroot) as broker, RawClient(broker.port) as client:
        durable, plain = writers(broker)
        for _ in range(12):
            assert durable.write(client) is ErrorCode.NONE
            assert plain.write(client) is ErrorCode.NONE
        before = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (highest_descriptor(broker.pid) + 1, before[1]))
        outcomes = {writer.write(client) for _ in range(12) for writer in (durable, plain)}
        assert outcomes <= {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
        assert ErrorCode.KAFKA_STORAGE_ERROR in outcomes, "a new segment is a new file"
        assert len(client.fetch("plain", max(plain.acknowledged)).records or b"") > 0
        with RawClient(broker.port) as stranger:
            assert stranger.is_closed_by_peer()
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, before)
        for writer in (durable, plain):
            eventually(lambda writer=writer: writer.write(client) is ErrorCode.NONE, what="written again")  # type: ignore[misc]
            writer.all_is_there(and_more=True)
        assert "no_descriptors_left" in broker.log
        assert "Traceback" not in broker.log


def highest_descriptor(pid: int) -> int:
    return max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.needs("small disk")
def test_without_zookeeper_a_full_disk_is_dealt_with_all_the_same_and_a_start_says_who_is_missing(
    own_zookeeper: ZooKeeperProcess, disk: SmallDisk
) -> None:
    address = f"{own_zookeeper.address}/own"
    settings = {"zookeeper.connection.timeout.ms": 1_500}
    with BrokerProcess(disk.folder.parent, address, settings=settings) as broker:
        durable, plain = writers(broker)
        with RawClient(broker.port) as client:
            assert plain.write(client) is ErrorCode.NONE
            own_zookeeper.kill()
            assert durable.until_refused(client) is ErrorCode.KAFKA_STORAGE_ERROR
            durable.all_is_there()
            disk.throw_ballast_out()
            eventually(lambda: durable.write(client) is ErrorCode.NONE, what="room again")
        broker.kill()
        broker.launch()
        assert broker.process.wait(20_000) != 0
        last = broker.log.splitlines()[-1]
        assert address.partition("/")[0] in last, last
        assert "Traceback" not in broker.log
        own_zookeeper.start()
        eventually(lambda: accepts(int(address.partition("/")[0].partition(":")[2])), what="ZooKeeper back")
        eventually(lambda: starts(broker), within_ms=40_000, what="the broker up again")
        durable.all_is_there()
        plain.all_is_there()


def starts(broker: BrokerProcess) -> bool:
    """Return whether the broker came up this time: ZooKeeper may still be starting."""
    try:
        broker.restart()
    except RuntimeError:
        return False
    return True
