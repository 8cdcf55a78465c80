"""A journal on a disk that is full: drops by name, no crash, and events again once there is room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.runtime.clock import SystemClock
from headrace.sdk.journal import START, JournalRefused, JournalSettings, JournalTransport, open_journals
from headrace.sdk.transport import LoggerRun
from tests.crash.small_disk import MIB, SmallDisk
from tests.support.processes import eventually

pytestmark = pytest.mark.needs("small disk")
WINDOW = 1_200_000
FULL = "dropped_journal_full"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    mounted = SmallDisk(tmp_path / "disk", mib=4, ballast_mib=2)
    try:
        yield mounted
    finally:
        mounted.end()


def transport_on(disk: SmallDisk, segment_bytes: int) -> JournalTransport:
    run = LoggerRun(
        topic="clicks",
        schema='"bytes"',
        record_name="clicks",
        application="app",
        instance="host/app/1",
        server_name="host",
        lateness_ms=60_000,
    )
    settings = JournalSettings(root=disk.folder / "journals", segment_bytes=segment_bytes)
    transport = JournalTransport(run, settings, SystemClock())
    transport.start()
    return transport


def test_a_full_disk_is_a_drop_by_name_and_forgotten_once_there_is_room(disk: SmallDisk) -> None:
    transport = transport_on(disk, MIB // 2)
    answers = [transport.take(bytes(1_000), WINDOW, None, 0) for _ in range(4_000)]
    taken = answers.count(None)
    assert 500 < taken < 2_500
    assert answers.count(FULL) == 4_000 - taken
    (journal,) = open_journals(disk.folder / "journals")[0]
    assert journal.losses().counts == {(WINDOW, FULL): 4_000 - taken}
    disk.throw_ballast_out()
    eventually(lambda: transport.take(bytes(1_000), WINDOW, None, 0) is None)
    transport.close(0)
    position, count = START, 0
    while (chunk := journal.read(position, MIB)).end != position:
        count, position = count + len(chunk.records), chunk.end
        assert not chunk.unreadable
    assert count == transport.ledger().taken > taken


def test_a_disk_that_is_full_from_the_beginning_refuses_the_journal_and_keeps_nothing_of_it(disk: SmallDisk) -> None:
    with pytest.raises(JournalRefused, match="No space left on device"):
        transport_on(disk, 8 * MIB)
    assert [path for path in (disk.folder / "journals").rglob("*") if not path.is_dir()] == []
