"""Power cuts after every single disk operation of a small log's life. All that was reported as flushed is there byte for byte,
nothing is served that was never appended, and the log opens.

A failure names the operation and the fate; both follow from the seed in the test's name.
"""

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.log import AppendFailed, LogUnusable, preallocated_tail
from tests.crash.disk_operations import Mark
from tests.crash.fates import AnyKept
from tests.crash.recorded_disk import RecordedDisk
from tests.crash.story import Flushed, Found, Story, cut_everywhere
from tests.support.small_logs import DAY_MS, NOW_MS, fetched

SEED = 20_261_121


def test_appends_and_flushes(disk: RecordedDisk, scratch: Path) -> None:
    with disk:
        story = Story(disk)
        for number in range(12):
            story.append(idempotent=number % 2 == 0)
            if number % 3 == 2:
                story.flush()
        story.close()
    assert cut_everywhere(story, scratch, seed=SEED) > 50


@pytest.mark.parametrize("flush_on_roll", [True, False])
def test_rolling_segments(disk: RecordedDisk, scratch: Path, flush_on_roll: bool) -> None:
    with disk:
        story = Story(disk, segment_bytes=250, flush_on_roll=flush_on_roll)
        for number in range(10):
            story.append(idempotent=True)
            if number == 6:
                story.flush()
            if number % 4 == 3:
                story.checkpoint()
        story.close()
        story.open()
        story.append(300)
        story.checkpoint()
        story.flush()
        story.checkpoint()
    assert cut_everywhere(story, scratch, seed=SEED) > 50


def test_retention(disk: RecordedDisk, scratch: Path) -> None:
    with disk:
        story = Story(disk, segment_bytes=250, retention_bytes=500, flush_on_roll=False)
        for number in range(14):
            story.append()
            if number % 4 == 3:
                story.expire()
            if number % 5 == 4:
                story.flush()
        story.expire(NOW_MS + 30 * DAY_MS)
        story.append()
        story.flush()
    assert cut_everywhere(story, scratch, seed=SEED) > 50


def test_deleted_records(disk: RecordedDisk, scratch: Path) -> None:
    with disk:
        story = Story(disk, segment_bytes=250, flush_on_roll=False)
        ends = [story.append().next_offset for _ in range(8)]
        story.advance_start(ends[0])
        story.append()
        story.advance_start(ends[4])
        story.close()
        story.open()
        story.append()
        story.advance_start(story.log.log_end_offset)
        story.append()
        story.flush()
    assert cut_everywhere(story, scratch, seed=SEED) > 50


def test_a_mirrored_log_that_starts_and_jumps_where_its_source_does(disk: RecordedDisk, scratch: Path) -> None:
    with disk:
        story = Story(disk, segment_bytes=400, flush_on_roll=False)
        story.append_at(5_000, 5_000)
        story.append_at(story.log.log_end_offset, 5_000)
        story.flush()
        story.append_at(9_000, 9_000)
        story.flush()
        story.append_at(story.log.log_end_offset, 9_000)
        story.close()
    assert cut_everywhere(story, scratch, seed=SEED) > 30


def test_appends_that_found_no_room_and_were_cut_back(disk: RecordedDisk, scratch: Path) -> None:
    def append_without_room(story: Story, room: int) -> None:
        recorded, calls = os.pwrite, 0

        def full_after_some(fd: int, data: Any, position: int) -> int:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return recorded(fd, memoryview(data)[:room], position)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "pwrite", full_after_some)
            with pytest.raises(AppendFailed):
                story.append(200)

    with disk:
        story = Story(disk)
        for room in (10, 100, 200):
            story.append()
            append_without_room(story, room)
            story.append(8)
            story.flush()
        story.close()
    assert cut_everywhere(story, scratch, seed=SEED) > 30


def test_what_is_appended_while_a_flush_runs_is_not_taken_for_flushed(disk: RecordedDisk, scratch: Path) -> None:
    with disk:
        story = Story(disk, segment_bytes=400, flush_on_roll=False)
        for number in range(6):
            story.append(idempotent=True)
            job = story.begin_flush()
            story.append(200 if number == 3 else 40)
            if job is not None:
                job.run()
            story.append()
            story.end_flush(job)
            if number == 4:
                story.checkpoint()
    assert cut_everywhere(story, scratch, seed=SEED) > 50


def test_a_segment_that_is_begun_while_a_flush_runs_is_not_taken_for_entered(disk: RecordedDisk, scratch: Path) -> None:
    with disk:
        story = Story(disk, segment_bytes=150, flush_on_roll=False)
        for _ in range(5):
            story.append()
            job = story.begin_flush()
            story.append(200)
            assert job is not None
            job.run()
            story.end_flush(job)
            story.flush()
    assert cut_everywhere(story, scratch, seed=SEED) > 50


def test_many_small_flushes_into_space_that_was_written_ahead(disk: RecordedDisk, scratch: Path) -> None:
    with disk, pytest.MonkeyPatch.context() as patch:
        patch.setattr(preallocated_tail, "TAIL_BYTES", 256)
        patch.setattr(preallocated_tail, "_ZEROS", bytes(256))
        patch.setattr(preallocated_tail, "LEAST_FLUSHES", 1)
        story = Story(disk, segment_bytes=900, flush_on_roll=False)
        for number in range(24):
            story.append()
            job = story.begin_flush()
            if job is not None:
                job.run()
            story.end_flush(job)
            if number == 15:
                story.close()
                story.open()
    assert cut_everywhere(story, scratch, seed=SEED) > 100


def test_after_a_flush_that_failed_no_later_one_is_believed(disk: RecordedDisk, scratch: Path) -> None:
    with disk:
        story = Story(disk)
        story.append()
        story.flush()
        story.append()
        story.flush_in_vain()
        with pytest.raises(LogUnusable):
            story.append()
        with contextlib.suppress(LogUnusable):
            story.flush()
        story.log.close()
        disk.mark(Flushed(story.log.flushed_offset))
    assert cut_everywhere(story, scratch, seed=SEED) > 20


@pytest.mark.parametrize("checkpoint", [True, False])
def test_what_a_killed_brokers_successor_takes_over_is_on_disk_when_it_says_so(
    disk: RecordedDisk, scratch: Path, checkpoint: bool
) -> None:
    with disk:
        story = Story(disk, segment_bytes=250, flush_on_roll=False)
        for number in range(9):
            story.append(idempotent=True)
            if number == 1:
                story.flush()
            if checkpoint and number % 3 == 2:
                story.checkpoint()
            if number in (2, 5, 6):
                story.die_and_open()
        story.die_and_open()
    assert cut_everywhere(story, scratch, seed=SEED) > 50


def test_a_log_that_is_made_and_opened_without_waiting_for_the_disk_promises_nothing_before_its_first_flush(
    disk: RecordedDisk, scratch: Path
) -> None:
    with disk:
        story = Story(disk, segment_bytes=250, flush_on_roll=False, flush_at_open=False)
        story.append()
        story.flush()
        for number in range(6):
            story.append(idempotent=True)
            if number in (1, 3):
                story.die_and_open()
            if number == 4:
                story.flush()
        story.close()
        story.open()
        story.append()
        story.flush()
    assert cut_everywhere(story, scratch, seed=SEED) > 50


def test_deleted_records_of_a_log_whose_tail_is_not_on_disk(disk: RecordedDisk, scratch: Path) -> None:
    with disk:
        story = Story(disk, segment_bytes=250, flush_on_roll=False)
        ends = [story.append().next_offset for _ in range(5)]
        story.advance_start(ends[3])
        story.append()
        story.flush()
        story.advance_start(story.log.log_end_offset)
        story.flush()
        story.append()
        story.checkpoint()
        story.advance_start(story.log.log_end_offset)
    assert cut_everywhere(story, scratch, seed=SEED) > 50


def test_a_power_cut_during_the_recovery_from_a_power_cut(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    before = RecordedDisk(first)
    with before:
        story = Story(before, segment_bytes=250, flush_on_roll=False)
        for number in range(7):
            story.append(idempotent=True)
            if number == 3:
                story.flush()
    promised = story.log.flushed_offset
    for number in range(0, len(before.operations), 5):
        root = tmp_path / f"second-{number}"
        root.mkdir()
        count = len(before.operations) - number
        before.after(count).write_out(root, AnyKept(f"{SEED}/{number}"))
        again = RecordedDisk(root)
        again.operations += [told for told in before.operations[:count] if isinstance(told, Mark)]
        with again:
            second = Story(again, segment_bytes=250, flush_on_roll=False)
            again.mark(Found(frozenset(header.position for header, _ in fetched(second.log))))
            second.append()
            second.flush()
        assert number or second.log.log_end_offset >= promised
        cut_everywhere(second, tmp_path / f"scratch-{number}", seed=SEED)
