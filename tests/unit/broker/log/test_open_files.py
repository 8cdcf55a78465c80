"""Few files are open, however many logs there are; only the opening of a file is noticed."""

import threading
from pathlib import Path

import pytest

from headrace.broker.log import PartitionLog
from headrace.broker.log.segment import open_files
from tests.support.small_logs import NOW_MS, batch, fetched, held_open, open_log, values

pytestmark = pytest.mark.usefixtures("no_fsync")


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> open_files.OpenFiles:
    """No more than three files."""
    files = open_files.OpenFiles(limit=3)
    monkeypatch.setattr(open_files, "shared", files)
    return files


def many(folder: Path, count: int) -> list[PartitionLog]:
    return [open_log(folder / f"events-{number}") for number in range(count)]


def test_many_logs_grow_and_are_read_with_few_files(tmp_path: Path, three: open_files.OpenFiles) -> None:
    logs = many(tmp_path, 20)
    for turn in range(3):
        for log in logs:
            log.append(batch(b"%d" % turn), NOW_MS)
            assert len(held_open(tmp_path)) <= 4
    assert all(values(fetched(log)) == [b"0", b"1", b"2"] for log in logs)
    assert len(three) <= 3
    for log in logs:
        log.close()
    assert held_open(tmp_path) == []
    assert len(three) == 0


def test_an_idle_log_that_was_opened_again_holds_no_file(tmp_path: Path) -> None:
    for log in many(tmp_path, 3):
        log.append(batch(b"a"), NOW_MS)
        log.close()
    logs = many(tmp_path, 3)
    assert held_open(tmp_path) == []
    assert [len(fetched(log)) for log in logs] == [1, 1, 1]


def test_what_is_on_disk_is_closed_before_what_is_not(tmp_path: Path, three: open_files.OpenFiles) -> None:
    unflushed, flushed, *others = many(tmp_path, 5)
    for log in (unflushed, flushed, others[0]):
        log.append(batch(b"a"), NOW_MS)
    flushed.flush()
    others[1].append(batch(b"a"), NOW_MS)
    assert len(held_open(unflushed.folder)) == 1
    assert held_open(flushed.folder) == []


def test_when_nothing_is_on_disk_the_oldest_goes(tmp_path: Path, three: open_files.OpenFiles) -> None:
    logs = many(tmp_path, 5)
    for log in logs:
        log.append(batch(b"a"), NOW_MS)
    assert [len(held_open(log.folder)) for log in logs] == [0, 0, 1, 1, 1]
    for log in logs:
        log.flush()
        assert log.flushed_offset == log.log_end_offset


def test_a_region_and_a_flush_under_way_keep_their_files(tmp_path: Path, three: open_files.OpenFiles) -> None:
    logs = many(tmp_path, 6)
    first = logs[0]
    first.append(batch(b"a"), NOW_MS)
    piece, job = first.read(0, 100), first.flush_job()
    for log in logs[1:]:
        log.append(batch(b"a"), NOW_MS)
    assert piece is not None
    assert job is not None
    assert len(piece.read()) == first.log_end_offset
    job.run()
    job.done()
    assert first.flushed_offset == first.log_end_offset


def test_logs_that_are_dropped_are_forgotten(tmp_path: Path, three: open_files.OpenFiles) -> None:
    logs = many(tmp_path, 2)
    for log in logs:
        log.append(batch(b"a"), NOW_MS)
    del log, logs
    assert len(three) == 0
    assert held_open(tmp_path) == []


def test_files_are_closed_from_other_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "shared", open_files.OpenFiles(limit=1))
    logs = many(tmp_path, 4)

    def work(log: PartitionLog) -> None:
        for number in range(300):
            log.append(batch(b"%d" % number), NOW_MS)
            log.read(0, 100)

    threads = [threading.Thread(target=work, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(fetched(log)) for log in logs] == [300] * 4
