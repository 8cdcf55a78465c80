"""Flushes happen only on request or when a segment is closed, and what counts as flushed was really synced."""

import os
from pathlib import Path

import pytest

from headrace.broker.log import FolderFault, LogUnusable
from tests.support.small_logs import NOW_MS, batch, fetched, held_open, open_log, values


class Syncs:
    """Records which files were synced, by the name of their descriptor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.error: OSError | None = None
        monkeypatch.setattr(os, "fdatasync", self._sync)
        monkeypatch.setattr(os, "fsync", self._sync)

    def _sync(self, fd: int) -> None:
        if self.error is not None:
            raise self.error
        self.names.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    return Syncs(monkeypatch)


def test_appends_are_not_on_disk_until_somebody_flushes(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path)
    syncs.names.clear()
    log.append(batch(b"a"), NOW_MS)
    assert (syncs.names, log.flushed_offset) == ([], 0)
    log.flush()
    assert (syncs.names, log.flushed_offset) == ([f"{0:020d}.log"], 69)
    log.flush()
    assert len(syncs.names) == 1, "nothing new, nothing to wait for"


def test_a_new_folder_and_the_first_file_are_entered_on_disk(tmp_path: Path, syncs: Syncs) -> None:
    open_log(tmp_path / "data" / "events-0")
    assert syncs.names[:2] == [tmp_path.name, "data"]
    assert syncs.names[-1] == "events-0"


def test_closing_a_segment_flushes_it_and_the_next_flush_enters_the_new_file(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path, segment_bytes=64)
    log.append(batch(b"a"), NOW_MS)
    syncs.names.clear()
    log.append(batch(b"b"), NOW_MS)
    assert (syncs.names, log.flushed_offset) == ([f"{0:020d}.log"], 69)
    log.flush()
    assert (syncs.names[1:], log.flushed_offset) == ([f"{69:020d}.log", tmp_path.name], 138)


def test_closed_segments_may_be_left_to_the_next_flush(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path, segment_bytes=64, flush_on_roll=False)
    syncs.names.clear()
    for number in range(3):
        log.append(batch(b"%d" % number), NOW_MS)
    assert (syncs.names, log.flushed_offset) == ([], 0)
    log.flush()
    assert sorted(syncs.names) == sorted([*(f"{69 * number:020d}.log" for number in range(3)), tmp_path.name])
    assert log.flushed_offset == log.log_end_offset


def test_a_flush_on_another_thread_covers_what_was_appended_before_it_and_no_more(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), NOW_MS)
    job = log.flush_job()
    assert job is not None
    assert job.work.up_to_offset == 69
    log.append(batch(b"b"), NOW_MS)
    job.run()
    assert log.flushed_offset == 0
    job.done()
    assert log.flushed_offset == 69
    log.flush()
    assert log.flushed_offset == 138
    job.done()
    assert log.flushed_offset == 138, "a job that ends late takes nothing back"
    assert log.flush_job() is None


def test_a_job_that_is_never_run_leaves_all_its_work_to_the_next(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path, segment_bytes=64, flush_on_roll=False)
    for number in range(2):
        log.append(batch(b"%d" % number), NOW_MS)
    assert log.flush_job() is not None
    syncs.names.clear()
    log.flush()
    assert sorted(syncs.names) == sorted([f"{0:020d}.log", f"{69:020d}.log", tmp_path.name])
    assert log.flush_job() is None


def test_a_file_made_while_a_flush_is_under_way_is_entered_by_the_next(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path, segment_bytes=64, flush_on_roll=False)
    log.append(batch(b"a"), NOW_MS)
    log.append(batch(b"b"), NOW_MS)
    job = log.flush_job()
    assert job is not None
    log.append(batch(b"c"), NOW_MS)
    job.run()
    job.done()
    syncs.names.clear()
    log.flush()
    assert sorted(syncs.names) == sorted([f"{138:020d}.log", tmp_path.name])


def test_a_flush_goes_on_although_its_segments_are_rolled_and_deleted_meanwhile(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64, retention_ms=1_000)
    log.append(batch(b"a"), NOW_MS)
    job = log.flush_job()
    assert job is not None
    log.append(batch(b"b"), NOW_MS)
    assert len(log.expire(NOW_MS + 5_000)) == 2
    job.run()
    job.done()
    assert log.flushed_offset == log.log_end_offset == 138


def test_what_stays_is_on_disk_before_what_expires_goes(tmp_path: Path, syncs: Syncs, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, retention_ms=1_000)
    log.append(batch(b"a"), NOW_MS)
    rename = os.rename

    def noted(old: Path, new: Path) -> None:
        syncs.names.append("renamed")
        rename(old, new)

    monkeypatch.setattr(os, "rename", noted)
    syncs.names.clear()
    log.expire(NOW_MS + 5_000)
    assert syncs.names == [tmp_path.name, "renamed", tmp_path.name]


def test_closed_segments_stay_open_until_they_are_on_disk_so_that_no_error_is_missed(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path, segment_bytes=64, flush_on_roll=False)
    for number in range(4):
        log.append(batch(b"%d" % number), NOW_MS)
    assert len(held_open(tmp_path)) == 4
    log.flush()
    assert held_open(tmp_path) == [f"{3 * 69:020d}.log"]


def test_a_failed_flush_ends_all_appends_because_a_second_one_would_lie(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), NOW_MS)
    syncs.error = OSError(5, "Input/output error")
    with pytest.raises(LogUnusable, match="a flush failed: Input/output error"):
        log.flush()
    syncs.error = None
    with pytest.raises(LogUnusable):
        log.append(batch(b"b"), NOW_MS)
    assert log.failure is not None
    assert log.flushed_offset == 0
    assert values(fetched(log)) == [b"a"], "what is there can still be read"
    log.close()


def test_a_flush_job_that_is_reported_as_failed_makes_the_log_unusable(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), NOW_MS)
    job = log.flush_job()
    assert job is not None
    syncs.error = OSError(5, "Input/output error")
    with pytest.raises(OSError, match="Input/output error") as caught:
        job.run()
    job.failed(caught.value)
    with pytest.raises(LogUnusable):
        log.append(batch(b"b"), NOW_MS)


def test_after_a_failed_flush_the_success_of_another_one_that_was_under_way_counts_for_nothing(
    tmp_path: Path, syncs: Syncs
) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), NOW_MS)
    first, second = log.flush_job(), log.flush_job()
    assert first is not None
    assert second is not None
    first.failed(OSError(5, "Input/output error"))  # the system reports it to the first flush only
    second.run()
    second.done()
    assert log.flushed_offset == 0


def test_a_failed_flush_in_a_roll_appends_nothing(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path, segment_bytes=64)
    log.append(batch(b"a"), NOW_MS)
    syncs.error = OSError(5, "Input/output error")
    with pytest.raises(LogUnusable):
        log.append(batch(b"b"), NOW_MS)
    assert (len(log.segments), log.log_end_offset) == (1, 69)


def test_what_recovery_found_is_put_on_disk(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path, segment_bytes=64)
    for number in range(3):
        log.append(batch(b"%d" % number), NOW_MS)
    syncs.names.clear()
    again = open_log(tmp_path)
    assert syncs.names == [*(f"{69 * number:020d}.log" for number in range(3)), tmp_path.name, tmp_path.parent.name]
    assert again.flushed_offset == again.log_end_offset


def test_closing_flushes_and_lets_go_of_every_file(tmp_path: Path, syncs: Syncs) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), NOW_MS)
    syncs.names.clear()
    log.close()
    assert syncs.names == [f"{0:020d}.log"]
    assert held_open(tmp_path) == []
    log.close()


def test_a_folder_that_vanished_is_an_error_at_closing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append(batch(b"a"), NOW_MS)
    os.rename(tmp_path / "log", tmp_path / "elsewhere")
    with pytest.raises(FolderFault):
        log.close()
