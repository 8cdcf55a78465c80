"""Preallocated zeros: small awaited flushes use them, and no read ever shows them."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.log import PartitionLog, preallocated_tail
from headrace.broker.log.preallocated_tail import LEAST_FLUSHES, TAIL_BYTES
from headrace.broker.log.tools.check import check
from headrace.broker.log.tools.dump import dump
from tests.support.small_logs import NOW_MS, batch, fetched, open_log, values

FIRST = f"{0:020d}.log"
LENGTH = 69


def flushed_often(log: PartitionLog, count: int, *, size: int = 1) -> None:
    for _ in range(count):
        log.append(batch(b"x" * size), NOW_MS)
        job = log.flush_job(more_follow=True)
        assert job is not None
        job.run()
        job.done()


def length(folder: Path, name: str = FIRST) -> int:
    return (folder / name).stat().st_size


def test_after_some_flushes_that_were_waited_for_the_next_ones_leave_the_file_as_long_as_it_is(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    flushed_often(log, LEAST_FLUSHES)
    assert length(tmp_path) == LEAST_FLUSHES * LENGTH
    flushed_often(log, 1)
    ahead = length(tmp_path)
    assert ahead == log.log_end_offset + TAIL_BYTES
    flushed_often(log, 100)
    assert length(tmp_path) == ahead
    assert len(fetched(log)) == LEAST_FLUSHES + 101


def test_it_is_written_again_before_it_is_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preallocated_tail, "TAIL_BYTES", 20 * LENGTH)
    monkeypatch.setattr(preallocated_tail, "_ZEROS", bytes(20 * LENGTH))
    log = open_log(tmp_path)
    lengths = []
    for _ in range(100):
        flushed_often(log, 1)
        lengths.append(length(tmp_path))
        if len(lengths) > LEAST_FLUSHES:
            assert lengths[-1] - log.log_end_offset >= LENGTH, "the next flush finds its space"
    assert len(set(lengths[LEAST_FLUSHES:])) <= 6
    assert len(values(fetched(log))) == 100


def test_large_flushes_are_hardly_ever_written_twice(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    flushed_often(log, 4 * (LEAST_FLUSHES + 1), size=TAIL_BYTES)
    laid = length(tmp_path) - log.log_end_offset
    assert laid <= TAIL_BYTES
    flushed_often(log, 1, size=TAIL_BYTES)
    assert length(tmp_path) == log.log_end_offset


def test_flushes_that_nobody_waits_for_write_nothing_ahead(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(3 * LEAST_FLUSHES):
        log.append(batch(b"a"), NOW_MS)
        log.flush()
    assert length(tmp_path) == log.log_end_offset


def test_a_closed_segment_ends_with_what_is_in_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=20 * LENGTH)
    flushed_often(log, 21)
    assert length(tmp_path) == 20 * LENGTH
    flushed_often(log, LEAST_FLUSHES)
    assert length(tmp_path, f"{20 * LENGTH:020d}.log") == log.log_end_offset - 20 * LENGTH + TAIL_BYTES
    log.close()
    assert length(tmp_path, f"{20 * LENGTH:020d}.log") == log.log_end_offset - 20 * LENGTH
    assert check(tmp_path) == []


def test_after_a_kill_it_is_cut_off_and_nobody_calls_it_damage(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    flushed_often(log, LEAST_FLUSHES + 3)
    made = fetched(log)
    assert length(tmp_path) > log.log_end_offset
    assert [problem.kind for problem in check(tmp_path) if not problem.kind.is_harmless] == []
    assert {shown["kind"] for shown in dump(tmp_path)} == {"batch"}
    again = open_log(tmp_path)
    assert fetched(again) == made
    assert (again.recovery.cut_bytes, again.recovery.cut_reason, again.bad_ranges) == (0, None, [])
    assert length(tmp_path) == again.log_end_offset == log.log_end_offset


def test_a_closed_segment_that_a_crash_left_long_is_cut_at_the_next_one(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=3 * LENGTH)
    flushed_often(log, 7)
    made = fetched(log)
    with (tmp_path / FIRST).open("ab") as file:
        file.write(bytes(5_000))
    assert [problem.kind for problem in check(tmp_path) if not problem.kind.is_harmless] == []
    again = open_log(tmp_path, segment_bytes=3 * LENGTH)
    assert fetched(again) == made
    assert again.size_bytes == again.log_end_offset
    assert (length(tmp_path), again.bad_ranges) == (3 * LENGTH, [])


def test_an_append_that_fails_behind_it_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    flushed_often(log, LEAST_FLUSHES + 1)
    made = fetched(log)

    def no_room(fd: int, data: Any, position: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", no_room)
        with pytest.raises(Exception, match="No space left"):
            log.append(batch(b"a"), NOW_MS)
    assert fetched(log) == made
    flushed_often(log, 30)
    assert len(fetched(log)) == len(made) + 30


def test_a_disk_without_room_for_it_lets_flushes_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    pwrite = os.pwrite

    def room_for_batches_only(fd: int, data: Any, position: int) -> int:
        if len(data) > 1_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(fd, data, position)

    monkeypatch.setattr(os, "pwrite", room_for_batches_only)
    flushed_often(log, 3 * LEAST_FLUSHES)
    assert log.flushed_offset == log.log_end_offset == length(tmp_path)
