"""Power cuts after every disk operation of a log whose end is cut: what is left is the old log up to some batch, never a mixture,
and its list of leader epochs fits.
"""

import os
import shutil
from pathlib import Path

import pytest

from headrace.broker.log import PartitionLog
from headrace.broker.log.segment.segment_name import file_name
from tests.crash.disk_operations import Mark
from tests.crash.fates import AllKept
from tests.crash.possible_disk import reopened
from tests.crash.recorded_disk import RecordedDisk
from tests.crash.story import Story, fates
from tests.support.small_logs import NOW_MS, batch, fetched, scrubbed

SEED = 20_261_127
BATCHES = 12
BEGUN, DONE = "the cut begins", "the cut is done"


@pytest.mark.parametrize("kept", [0, 1, 4, 5, 11, 12])
def test_a_cut_leaves_the_old_log_up_to_some_batch(disk: RecordedDisk, scratch: Path, kept: int) -> None:
    epochs: dict[int, int] = {}
    with disk:
        story = Story(disk, segment_bytes=400, flush_on_roll=False)
        for number in range(BATCHES):
            if number % 3 == 0:
                story.log.begin_epoch(number // 3 + 1, story.log.log_end_offset)
            epochs[story.log.log_end_offset] = number // 3 + 1
            story.append()
            if number == 6:
                story.checkpoint()
        story.flush()
        story.checkpoint()
        old = fetched(story.log)
        to_offset = old[kept][0].position if kept < BATCHES else story.log.log_end_offset
        disk.mark(BEGUN)
        log = story.log.cut_end(to_offset, aside=disk.root / "events-0.cut", now_ms=NOW_MS)
        disk.mark(DONE)
        assert log.log_end_offset == log.flushed_offset == to_offset
        log.begin_epoch(9, to_offset)
        epochs_after = {**{at: epoch for at, epoch in epochs.items() if at < to_offset}, to_offset: 9}
        new = batch(b"another record in the place of an old one")
        log.append(new, NOW_MS)
        log.flush()
        log.close()
    before = [data for _, data in old[:kept]]
    opened, stage = 0, ""
    for count in range(len(disk.operations) + 1):
        if count and isinstance(mark := disk.operations[count - 1], Mark) and mark.fact in (BEGUN, DONE):
            stage = mark.fact
        if not stage or (count < len(disk.operations) and isinstance(disk.operations[count], Mark)):
            continue
        for fate in fates(SEED, count, 2):
            folder = scratch / "cut"
            folder.mkdir(parents=True)
            numbers = disk.after(count).write_out(folder, fate)
            with reopened(numbers, after_power_cut=not isinstance(fate, AllKept)):
                again = PartitionLog.open(folder / "events-0", topic="events", partition=0, config=story.config, now_ms=NOW_MS)
                there = [data for _, data in fetched(again)]
                where = f"after operation {count} of {len(disk.operations)}, {fate}"
                assert not again.bad_ranges, where
                assert not again.gaps, where
                if stage == BEGUN:
                    assert there == [data for _, data in old[: len(there)]], where
                    assert len(there) >= kept, where
                    assert _epochs(again) == {at: epoch for at, epoch in epochs.items() if at < again.log_end_offset}, where
                else:
                    assert there in (before, [*before, bytes(new)]), where
                    assert _epochs(again) == {at: one for at, one in epochs_after.items() if at < again.log_end_offset}, where
                again.close()
            shutil.rmtree(folder)
            opened += 1
    assert opened > 40


@pytest.mark.parametrize(("first", "last", "kept"), [(5, 5, 6), (5, 7, 7), (5, 7, 8), (0, 1, 1), (9, 10, 11)])
def test_a_cut_behind_damage_never_leaves_a_log_that_is_shorter_and_undamaged(
    disk: RecordedDisk, scratch: Path, first: int, last: int, kept: int
) -> None:
    """Such a replica would be taken for one that has everything."""
    with disk:
        story = Story(disk, segment_bytes=400, flush_on_roll=False)
        for _ in range(BATCHES):
            story.append()
        story.flush()
        old = fetched(story.log)
        bad_from, to_offset = old[first][0].position, old[kept][0].position
        story.log.close()
        base = max(one.base_offset for one in story.log.segments if one.base_offset <= bad_from)
        fd = os.open(story.folder / file_name(base), os.O_WRONLY)
        os.pwrite(fd, bytes(old[last][0].next_offset - bad_from), bad_from - base)
        os.fsync(fd)
        os.close(fd)
        for sidecar in [*story.folder.glob("*.index"), *story.folder.glob("*.recent")]:
            os.unlink(sidecar)
        log = PartitionLog.open(story.folder, topic="events", partition=0, config=story.config, now_ms=NOW_MS)
        assert [bad.from_offset for bad in log.bad_ranges] == [bad_from]
        disk.mark(BEGUN)
        log = log.cut_end(to_offset, aside=disk.root / "events-0.cut", now_ms=NOW_MS)
        disk.mark(DONE)
        log.close()
    begun, opened = disk.operations.index(Mark(BEGUN)), 0
    for count in range(begun + 1, len(disk.operations) + 1):
        for fate in fates(SEED, count, 2):
            folder = scratch / "cut"
            folder.mkdir(parents=True)
            numbers = disk.after(count).write_out(folder, fate)
            with reopened(numbers, after_power_cut=not isinstance(fate, AllKept)):
                again = PartitionLog.open(folder / "events-0", topic="events", partition=0, config=story.config, now_ms=NOW_MS)
                where = f"after operation {count} of {len(disk.operations)}, {fate}"
                scrubbed(again)
                assert again.log_end_offset >= to_offset, where
                assert [bad.from_offset for bad in again.bad_ranges] == [bad_from], where
                assert not again.gaps, where
                again.close()
            shutil.rmtree(folder)
            opened += 1
    assert opened > 20


def _epochs(log: PartitionLog) -> dict[int, int]:
    """Return the epoch of each batch by the list."""
    found = {}
    for header, _ in fetched(log):
        found[header.position] = max(each.leader_epoch for each in log.leader_epochs if each.start_offset <= header.position)
    return found
