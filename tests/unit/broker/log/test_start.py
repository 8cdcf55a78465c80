"""A moved log start: inside a segment or a batch, durable, never beyond the end, and no offset is used twice."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.broker.log import DeletedSegment, FolderFault, LogUnusable, OffsetOutOfRange, PartitionLog
from headrace.broker.log.tools.check import check
from headrace.wire.generators import run_to_end
from tests.support.small_logs import DAY_MS, NOW_MS, batch, fetched, open_log, values


def four_segments(folder: Path) -> PartitionLog:
    """Return a log of four segments of two batches, 69 bytes each."""
    log = open_log(folder, segment_bytes=150)
    for number in range(8):
        log.append(batch(b"%d" % number, timestamp_ms=NOW_MS + number), NOW_MS)
    return log


def files(folder: Path) -> list[str]:
    return sorted(path.name.lstrip("0") for path in folder.glob("*.log"))


def test_a_start_in_the_middle_of_a_segment_outlives_kill_and_restart(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    deleted = log.advance_start(138 + 69, NOW_MS)
    assert [segment.base_offset for segment in deleted] == [0]
    for again in (log, open_log(tmp_path), open_log(tmp_path)):
        assert (again.log_start_offset, again.log_end_offset) == (207, 552)
        assert values(fetched(again)) == [b"3", b"4", b"5", b"6", b"7"]
        for offset in (0, 138, 206):
            with pytest.raises(OffsetOutOfRange, match="holds 207 to 552"):
                again.read(offset, 100)
    assert files(tmp_path) == ["138.log", "276.log", "414.log"]
    assert check(tmp_path) == []


def test_a_start_in_the_middle_of_a_batch_still_gets_the_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a", b"b", b"c"), NOW_MS)
    log.advance_start(2, NOW_MS)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 100)
    assert values(fetched(open_log(tmp_path))) == [b"a", b"b", b"c"]


def test_everything_may_go_and_the_log_end_stays(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    assert len(log.advance_start(log.log_end_offset, NOW_MS)) == 4
    assert log.advance_start(552, NOW_MS) == []
    for again in (log, open_log(tmp_path)):
        assert (again.log_start_offset, again.log_end_offset, again.size_bytes) == (552, 552, 0)
        assert again.read(552, 100) is None
    assert files(tmp_path) == ["552.log"]
    assert log.append(batch(b"next"), NOW_MS).next_offset == 552 + len(batch(b"next"))


def test_no_start_lies_beyond_the_log_end(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    with pytest.raises(OffsetOutOfRange, match="offset 553 is not in the log"):
        log.advance_start(553, NOW_MS)
    assert log.log_start_offset == 0
    assert not (tmp_path / "log-start").exists()


def test_a_start_never_goes_back(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    log.advance_start(300, NOW_MS)
    assert log.advance_start(200, NOW_MS) == []
    assert (log.log_start_offset, open_log(tmp_path).log_start_offset) == (300, 300)


def test_two_jobs_that_end_in_the_wrong_order_leave_the_later_start(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    jobs = [log.start_job(offset, NOW_MS) for offset in (200, 300)]
    for job in reversed(jobs):
        assert job is not None
        job.run()
    for job in jobs:
        assert job is not None
        job.done()
    assert (log.log_start_offset, open_log(tmp_path).log_start_offset) == (300, 300)


def test_retention_goes_past_a_moved_start(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    log.advance_start(200, NOW_MS)
    log.config = open_log(tmp_path, segment_bytes=150, retention_ms=DAY_MS).config
    log.expire(NOW_MS + 2 * DAY_MS)
    for again in (log, open_log(tmp_path)):
        assert (again.log_start_offset, again.log_end_offset) == (552, 552)


def test_a_crash_between_the_note_and_the_deletion_is_made_good_at_opening(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    job = log.start_job(414, NOW_MS)
    assert job is not None
    job.run()
    again = open_log(tmp_path)
    assert values(fetched(again)) == [b"6", b"7"]
    assert files(tmp_path) == ["414.log"]


def test_what_a_note_stands_in_is_on_disk_before_the_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = four_segments(tmp_path)
    synced: list[str] = []
    real = os.fdatasync

    def noting(fd: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        assert not (tmp_path / "log-start").exists()
        real(fd)

    monkeypatch.setattr(os, "fdatasync", noting)
    log.advance_start(500, NOW_MS)
    assert f"{414:020d}.log" in synced
    assert log.flushed_offset == 552


def test_a_disk_that_takes_no_note_leaves_the_start_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = four_segments(tmp_path)
    log.flush()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(FolderFault, match="No space left"):
            log.advance_start(300, NOW_MS)
    assert (log.log_start_offset, open_log(tmp_path).log_start_offset) == (0, 0)
    assert len(log.advance_start(300, NOW_MS)) == 2


def test_a_flush_that_fails_on_the_way_closes_the_log_for_appends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = four_segments(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda fd: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        with pytest.raises(LogUnusable):
            log.advance_start(500, NOW_MS)
    with pytest.raises(LogUnusable):
        log.append(batch(b"more"), NOW_MS)


@pytest.mark.parametrize("note", [b"", b"garbage", b"%020d 00000000\n" % 300, b"\xff" * 30])
def test_a_damaged_note_says_nothing(tmp_path: Path, note: bytes) -> None:
    four_segments(tmp_path).close()
    (tmp_path / "log-start").write_bytes(note)
    assert open_log(tmp_path).log_start_offset == 0


def test_offsets_below_a_noted_start_are_never_given_out_again(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    log.advance_start(500, NOW_MS)
    log.close()
    for path in tmp_path.glob("*.log"):
        path.unlink()
    again = open_log(tmp_path)
    assert (again.log_start_offset, again.log_end_offset) == (500, 500)


def test_times_are_looked_up_from_the_start_on(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    late = log.append(batch(b"late", timestamp_ms=NOW_MS + 1_000), NOW_MS)
    early = log.append(batch(b"a", b"b", b"c", timestamp_ms=NOW_MS), NOW_MS)
    assert run_to_end(log.largest_timestamp()) == (late.base_offset, NOW_MS + 1_000)
    log.advance_start(late.next_offset, NOW_MS)
    assert run_to_end(log.largest_timestamp()) == (early.base_offset + 2, NOW_MS + 2)
    assert run_to_end(log.offset_for_time(NOW_MS + 500)) is None
    log.advance_start(early.base_offset + 1, NOW_MS)
    assert run_to_end(log.offset_for_time(NOW_MS)) == (early.base_offset + 1, NOW_MS + 1)


@given(st.lists(st.integers(0, 600), max_size=6), st.integers(64, 700))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_wherever_the_start_goes_what_lies_behind_it_is_read(
    no_fsync: None, tmp_path_factory: pytest.TempPathFactory, offsets: list[int], segment_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = open_log(folder, segment_bytes=segment_bytes)
    for number in range(8):
        log.append(batch(b"%d" % number), NOW_MS)
    made = fetched(log)
    start = 0
    for offset in offsets:
        gone: list[DeletedSegment] = []
        if offset > log.log_end_offset:
            with pytest.raises(OffsetOutOfRange):
                log.advance_start(offset, NOW_MS)
        else:
            log.advance_start(offset, NOW_MS, erase=gone.append)
            start = max(start, offset)
            assert all(segment.end_offset <= start for segment in gone)
        log = open_log(folder, segment_bytes=segment_bytes)
        assert log.log_start_offset == start
        assert fetched(log) == [entry for entry in made if entry[0].base_offset + entry[0].record_count > start]


def test_a_start_that_is_being_noted_does_not_come_to_the_next_topic_of_that_name(tmp_path: Path) -> None:
    folder = tmp_path / "events-0"
    log = open_log(folder)
    for _ in range(3):
        log.append(batch(b"old"), NOW_MS)
    job = log.start_job(138, NOW_MS)
    assert job is not None
    folder.rename(tmp_path / "events-0.deleted.1")
    anew = open_log(folder)
    anew.append(batch(b"new"), NOW_MS)
    anew.flush()
    job.run()  # on another thread, and late
    assert values(fetched(open_log(folder))) == [b"new"]


def test_a_note_of_a_start_is_written_whole_however_little_the_disk_takes_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = four_segments(tmp_path)
    write = os.pwrite
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda fd, data, position: write(fd, memoryview(data)[:7], position))
        log.advance_start(100, NOW_MS)
    assert open_log(tmp_path).log_start_offset == 100
