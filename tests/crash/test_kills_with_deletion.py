"""`kill -9` while the heads of logs are deleted: retention by size, DeleteRecords. Deleted data stays deleted, and nothing
else is lost.
"""

import random
import struct
import threading
from pathlib import Path

import pytest

from tests.crash.kills import DURABLE, PLAIN, Episode, new_broker, seed_of
from tests.crash.load import Sender
from tests.support.raw_kafka import Closed, RawClient

KILLS = 25


class Deleter(threading.Thread):
    """Deletes the older half of one partition after another, and remembers the responses."""

    def __init__(self, tale: Episode, senders: list[Sender]) -> None:
        super().__init__(daemon=True)
        self.asked: dict[tuple[str, int], int] = {}
        self.answers = 0
        self._tale = tale
        self._senders = senders
        self._chance = random.Random(f"{tale.seed}/deleter")
        self._done = threading.Event()

    def finish(self) -> None:
        self._done.set()
        self.join(60)

    def run(self) -> None:
        while not self._done.wait(self._chance.random() * 0.02):
            sender = self._chance.choice(self._senders)
            offsets = sorted(sender.acknowledged)
            if not offsets:
                continue
            try:
                with RawClient(self._tale.broker.port) as client:
                    self._delete_records(client, sender, offsets[len(offsets) // 2] + self._chance.choice((0, 1)))
            except (OSError, Closed, struct.error):
                continue

    def _delete_records(self, client: RawClient, sender: Sender, offset: int) -> None:
        position = (sender.topic, sender.partition)
        self.asked[position] = max(offset, self.asked.get(position, 0))
        partition = {"partition_index": sender.partition, "offset": offset}
        message = {"topics": [{"name": sender.topic, "partitions": [partition]}], "timeout_ms": 10_000}
        (answer,) = client.ask(21, 2, message).topics[0].partitions
        if answer.error_code == 0:
            self.answers += 1
            assert answer.low_watermark >= offset
            self._tale.lowest_start[position] = max(offset, self._tale.lowest_start.get(position, 0))


@pytest.mark.parametrize("episode", range(4, 6))
def test_what_is_deleted_stays_deleted_and_nothing_else_is(zookeeper_chroot: str, tmp_path: Path, episode: int) -> None:
    with new_broker(tmp_path, zookeeper_chroot, log_retention_check_interval_ms=50) as broker:
        tale = Episode(broker, seed_of(episode))
        tale.add_topic("durable", 2, DURABLE)
        tale.add_topic("plain", 1, PLAIN)
        deleted_from = list(tale.senders)
        tale.add_topic("short", 2, {**PLAIN, "retention.bytes": "60000"})
        tale.add_topic("short-durable", 1, {**DURABLE, "retention.bytes": "60000"})
        deleter = Deleter(tale, deleted_from)
        tale.begin()
        deleter.start()
        for _ in range(KILLS):
            tale.some_more_is_acknowledged(tale.chance.randint(1, 20))
            tale.kill()
            broker.restart()
            tale.everything_is_there()
            for position, start in tale.starts.items():
                if position in deleter.asked:
                    assert start <= deleter.asked[position], f"{position} starts later than anybody asked"
        deleter.finish()
        assert deleter.answers > KILLS
        assert tale.starts["short", 0] > 0, "retention was at work"
        tale.end()
