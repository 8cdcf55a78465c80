"""Power cuts: a small log's whole life, cut after every single operation on the disk. All that was reported flushed is there byte
for byte, nothing is served that was never appended, and the log opens.

A failure names the operation and the fate; both follow from the seed in the test's name.
"""

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.log import AppendFailed
from tests.crash.recorded_disk import AnyKept, Mark, RecordedDisk
from tests.crash.story import Found, Story, cut_everywhere
from tests.unit.broker_log.small_logs import DAY_MS, NOW_MS, fetched

SEED = 20_261_121


@pytest.fixture
def disk(tmp_path: Path) -> RecordedDisk:
    root = tmp_path / "disk"
    root.mkdir()
    return RecordedDisk(root)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch"


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


@pytest.mark.parametrize("seed", range(SEED, SEED + 6))
def test_any_life(disk: RecordedDisk, scratch: Path, seed: int) -> None:
    chance = random.Random(seed)
    with disk:
        story = Story(disk, segment_bytes=chance.randint(150, 600), retention_bytes=1_500, flush_on_roll=chance.random() < 0.5)
        for _ in range(40):
            step = chance.random()
            if step < 0.55:
                story.append(chance.choice((8, 40, 150, 700)), idempotent=chance.random() < 0.5)
            elif step < 0.7:
                story.flush()
            elif step < 0.8:
                story.checkpoint()
            elif step < 0.87:
                story.expire()
            elif step < 0.94:
                story.advance_start(chance.randint(story.log.log_start_offset, story.log.log_end_offset))
            else:
                story.close()
                story.open()
    assert cut_everywhere(story, scratch, seed=seed, some=2) > 50


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
            again.mark(Found(frozenset(header.base_offset for header, _ in fetched(second.log))))
            second.append()
            second.flush()
        assert number or second.log.log_end_offset >= promised
        cut_everywhere(second, tmp_path / f"scratch-{number}", seed=SEED)
