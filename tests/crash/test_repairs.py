"""Kills and power cuts after every disk operation of a repair: each batch is as it was damaged, or whole; never anything else."""

import os
import shutil
from pathlib import Path

import pytest

from headrace.broker.log import BadRange, PartitionLog
from tests.crash.disk_operations import Mark
from tests.crash.fates import AllKept
from tests.crash.possible_disk import reopened
from tests.crash.recorded_disk import RecordedDisk
from tests.crash.story import Story, fates
from tests.support.small_logs import NOW_MS, fetched, scrubbed

SEED = 20_261_128
BATCHES = 12
BEGUN, DONE = "the repair begins", "the repair is done"


@pytest.mark.parametrize(("first", "last"), [(0, 0), (3, 5), (2, 2)])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_repair_leaves_the_damage_or_the_repair(
    disk: RecordedDisk, scratch: Path, first: int, last: int, is_known: bool
) -> None:
    """`is_known`: the sidecar has the damage. If not, the next start's scrub finds what is left of it."""
    with disk:
        story = Story(disk, segment_bytes=10_000, flush_on_roll=False)
        for _ in range(BATCHES):
            story.append()
        story.flush()
        story.checkpoint()
        made = fetched(story.log)
        bad = BadRange(made[first][0].position, made[last][0].next_offset, "flipped")
        path = story.log.folder / f"{0:020d}.log"
        fd = os.open(path, os.O_RDWR)
        for number in range(first, last + 1):
            os.pwrite(fd, b"\xff", made[number][0].position + 63)
        os.fsync(fd)
        os.close(fd)
        story.log.comparison.note_bad(bad)
        if is_known:
            story.append()
            story.flush()
            story.checkpoint()
        with path.open("rb") as file:
            damaged = file.read()[bad.from_offset : bad.to_offset]
        good = b"".join(data for _, data in made[first : last + 1])
        disk.mark(BEGUN)
        job = story.log.comparison.repair_job(bad, memoryview(good), disk.root / "events-0.damaged.1")
        job.run_to_end()
        disk.mark(DONE)
        story.checkpoint()
        story.log.close()
    stage, opened, damages, repairs = "", 0, 0, 0
    for count in range(len(disk.operations) + 1):
        if count and isinstance(mark := disk.operations[count - 1], Mark) and mark.fact in (BEGUN, DONE):
            stage = mark.fact
        if not stage or (count < len(disk.operations) and isinstance(disk.operations[count], Mark)):
            continue
        for fate in fates(SEED, count, 2):
            folder = scratch / "cut"
            folder.mkdir(parents=True)
            numbers = disk.after(count).write_out(folder, fate)
            where = f"after operation {count} of {len(disk.operations)}, {fate}"
            with reopened(numbers, after_power_cut=not isinstance(fate, AllKept)):
                again = PartitionLog.open(folder / "events-0", topic="events", partition=0, config=story.config, now_ms=NOW_MS)
                scrubbed(again)
                there = [data for header, data in fetched(again) if header.position < made[-1][0].next_offset]
                whole = [data for _, data in made]
                assert [data for data in there if data not in whole] == [], where
                lost = [header.position for header, data in made if data not in there]
                assert all(bad.from_offset <= position < bad.to_offset for position in lost), where
                assert bool(lost) == bool(again.bad_ranges), where
                if stage == DONE:
                    assert not lost, where
                aside = folder / "events-0.damaged.1" / f"{bad.from_offset:020d}.log"
                if not lost:  # what was overwritten is on disk elsewhere
                    assert aside.read_bytes() == damaged, where
                damages, repairs = damages + bool(lost), repairs + (not lost)
                again.close()
            shutil.rmtree(folder)
            opened += 1
    assert min(damages, repairs) > 3
    assert opened > 10
