"""Power cuts during random lives of a log: appends, flushes that run beside them or fail, checkpoints, retention, deleted
records, stops and kills in any order. The same seed gives the same life.
"""

import random
from pathlib import Path

import pytest

from headrace.broker.log import FlushJob
from tests.crash.recorded_disk import RecordedDisk
from tests.crash.story import Story, cut_everywhere

SEED = 20_261_121


@pytest.mark.parametrize("seed", range(SEED, SEED + 7))
def test_any_life(disk: RecordedDisk, scratch: Path, seed: int) -> None:
    chance = random.Random(seed)
    with disk:
        story = Story(disk, segment_bytes=chance.randint(150, 600), retention_bytes=1_500, flush_on_roll=chance.random() < 0.5)
        under_way: FlushJob | None = None
        has_run = False
        for _ in range(40):
            step = chance.random()
            if step < 0.5:
                story.append(chance.choice((8, 40, 150, 700)), idempotent=chance.random() < 0.5)
            elif step < 0.6:
                if under_way is None:
                    under_way, has_run = story.begin_flush(), False
                elif not has_run:
                    under_way.run()
                    has_run = True
                else:
                    story.end_flush(under_way)
                    under_way = None
            elif step < 0.7:
                if under_way is None:
                    story.flush()
            elif step < 0.8:
                story.checkpoint()
            elif step < 0.87:
                story.expire()
            elif step < 0.94:
                story.advance_start(chance.randint(story.log.log_start_offset, story.log.log_end_offset))
            elif step < 0.97:
                under_way = None
                story.close()
                story.open()
            elif step < 0.985 or story.log.flushed_offset == story.log.log_end_offset:
                under_way = None
                story.die_and_open()
            else:
                under_way = None
                story.flush_in_vain(takes_last=chance.random() < 0.5)
                if chance.random() < 0.5:
                    disk.evict()
                story.die_and_open_on_what_is_left()
    assert cut_everywhere(story, scratch, seed=seed, some=1) > 50
