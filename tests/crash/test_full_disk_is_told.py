"""A real broker on a real file system that is full: `/readyz` reports it, with path and bytes, until there is room."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.local.supervisor import probes
from headrace.local.supervisor.process_table import Probe
from headrace.runtime.clock import ManualClock
from headrace.runtime.disk_room import LEAST_BYTES
from headrace.runtime.status import StatusFile
from headrace.wire.errors import ErrorCode
from tests.crash.small_disk import SmallDisk
from tests.crash.test_scarcity import writers
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually, free_port
from tests.support.raw_kafka import RawClient
from tests.support.scraping import Scrape, health

BALLAST_MIB = 3

pytestmark = pytest.mark.needs("small disk")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """The disk for the data of a `BrokerProcess` on `disk.folder.parent`."""
    mounted = SmallDisk(tmp_path / "data", mib=8, ballast_mib=BALLAST_MIB)
    try:
        yield mounted
    finally:
        mounted.end()


def test_a_full_disk_is_told_by_readyz_and_metrics_and_forgotten_once_there_is_room(
    zookeeper_chroot: str, disk: SmallDisk
) -> None:
    port = free_port()
    settings = {"http.port": port}
    with BrokerProcess(disk.folder.parent, zookeeper_chroot, settings=settings) as broker, RawClient(broker.port) as client:
        durable, plain = writers(broker)
        assert health(port, "/readyz")[0] == 200
        assert durable.until_refused(client) is ErrorCode.KAFKA_STORAGE_ERROR
        status, words = health(port, "/readyz")
        assert status == 503
        assert words["data"]["path"] == str(broker.data)
        assert words["data"]["free_bytes"] < LEAST_BYTES
        (reason,) = words["reasons"]
        assert "the disk is full" in reason
        assert str(broker.data) in reason
        assert f"{words['data']['free_bytes']} bytes free" in reason
        assert health(port, "/healthz")[0] == 200, "a start would make no room"
        assert Scrape(port).sum("ready") == 0
        told = probes.look(Probe(http=f"http://127.0.0.1:{port}/readyz"), broker.pid)
        assert told is not None
        assert "the disk is full" in told, "as `headrace status` shows it"
        durable.all_is_there()
        disk.throw_ballast_out()
        eventually(lambda: health(port, "/readyz")[0] == 200, what="ready by itself")
        assert durable.write(client) is ErrorCode.NONE
        assert plain.write(client) is ErrorCode.NONE
        assert Scrape(port).sum("ready") == 1


def test_a_status_file_on_a_full_disk_ends_no_process_and_is_told_as_such(disk: SmallDisk) -> None:
    """Names a fault: a full disk ended each process that writes a status file there."""
    path = disk.folder / "run" / "mirror.json"
    clock = ManualClock(1_000)
    status = StatusFile(path, clock)
    status.write("ready", pid=7, beat_every_ms=1_000)
    with suppress(OSError), (disk.folder / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(1 << 12))
    clock.advance(60_000)
    status.write("stalled", pid=7, beat_every_ms=1_000)
    told = probes.look(Probe(status_file=path), 7, clock)
    assert told is not None
    assert told.startswith(f"cannot write its status for 60000 ms: the disk is full: {path.parent} has 0 bytes free")
    disk.throw_ballast_out()
    status.write("ready", pid=7, beat_every_ms=1_000)
    assert probes.look(Probe(status_file=path), 7, clock) is None
