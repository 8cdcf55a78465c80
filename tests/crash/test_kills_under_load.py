"""`kill -9` while producers are at work: durable and plain topics, idempotent producers and others, segments that roll."""

from pathlib import Path

import pytest

from tests.crash.kills import DURABLE, PLAIN, Episode, new_broker, seed_of

KILLS = 25


@pytest.mark.parametrize("episode", range(4))
def test_everything_acknowledged_is_there_once_and_in_order(zookeeper_chroot: str, tmp_path: Path, episode: int) -> None:
    with new_broker(tmp_path, zookeeper_chroot) as broker:
        tale = Episode(broker, seed_of(episode))
        tale.add_topic("durable", 3, DURABLE)
        tale.add_topic("plain", 2, PLAIN)
        tale.add_topic("careless", 1, PLAIN, idempotent=False)
        tale.begin()
        for _ in range(KILLS):
            tale.some_more_is_acknowledged(tale.chance.randint(1, 20))
            tale.kill()
            broker.restart()
            tale.everything_is_there()
        tale.end()
