"""`kill -9` during a start: recovery, too, may be interrupted at any point, and repeatedly."""

import time
from pathlib import Path

import pytest

from tests.crash.kills import DURABLE, PLAIN, Episode, new_broker, seed_of

KILLS = 50
LONGEST_START_MS = 700


@pytest.mark.parametrize("episode", range(6, 7))
def test_a_start_that_is_killed_loses_nothing(zookeeper_chroot: str, tmp_path: Path, episode: int) -> None:
    with new_broker(tmp_path, zookeeper_chroot) as broker:
        tale = Episode(broker, seed_of(episode))
        tale.add_topic("durable", 2, DURABLE)
        tale.add_topic("plain", 2, {**PLAIN, "retention.bytes": "100000"})
        tale.begin()
        kills = 0
        while kills < KILLS:
            tale.some_more_is_acknowledged(tale.chance.randint(1, 20))
            tale.kill()
            kills += 1
            for _ in range(tale.chance.randint(1, 4)):
                broker.launch()
                time.sleep(tale.chance.random() * LONGEST_START_MS / 1000)
                tale.kill()
                kills += 1
            broker.restart()
            tale.everything_is_there()
        tale.end()
