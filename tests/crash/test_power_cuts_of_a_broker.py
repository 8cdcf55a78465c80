"""Power cuts of a serving broker: whatever a client was told, on a topic that waits for the disk, is there after a cut at any
moment, and whatever a consumer saw, on every topic that shows only what is flushed. Real sockets, threads and logs on a recorded
disk.
"""

import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.broker.log import LogConfig, PartitionLog
from headrace.wire import produce
from tests.crash.disk_operations import Mark
from tests.crash.fates import AnyKept, Fate
from tests.crash.load import placed, whole_batches
from tests.crash.possible_disk import reopened
from tests.crash.recorded_disk import RecordedDisk
from tests.support.raw_kafka import RawClient, batch, produce_body
from tests.unit.broker.serving import NOW_MS, ServingBroker
from tests.unit.broker_log.small_logs import fetched

SEED = 20_261_121
BATCHES = 30
IN_FLIGHT = 8
SEGMENTS = {"segment.bytes": "600"}
TOPICS: dict[str, int | tuple[int, dict[str, str]]] = {
    "always": (1, {"flush.ack": "always", **SEGMENTS}),
    "by-ones": (1, {"flush.messages": "1", **SEGMENTS}),
    "twice": (1, {"flush.ack": "always", **SEGMENTS}),
    "interval": (1, {"flush.ack": "interval", "flush.ms": "5", **SEGMENTS}),
}
DURABLE = ("always", "by-ones", "twice")
SENT_TWICE = "twice"
"""An idempotent producer's topic: each batch comes again before it is on disk, and that answer promises as much."""


@dataclass(frozen=True)
class Told:
    """A client was told that this batch is in the log, or was shown it."""

    topic: str
    offset: int
    data: bytes


class Notes(Protocol):
    """Where is noted what was known at which moment of a disk."""

    def mark(self, fact: object) -> None: ...


def produce_all(port: int, topic: str, disk: Notes, life: int = 0) -> None:
    """Send what this life of the broker is to be told."""
    batches = [numbered(topic, number, life) for number in range(BATCHES) for _ in range(_times(topic))]
    with RawClient(port) as client:
        for number in range(len(batches) + IN_FLIGHT):
            if number < len(batches):
                client.send(produce.API_KEY, 9, produce_body(topic, batches[number], acks=-1))
            if number >= IN_FLIGHT:
                answer = produce.decode_response(9, client.receive(produce.API_KEY, 9)[1]).topics[0].partitions[0]
                assert answer.error_code == 0
                if topic in DURABLE:
                    data = placed(batches[number - IN_FLIGHT], answer.base_offset)
                    disk.mark(Told(topic, answer.base_offset, data))


def _times(topic: str) -> int:
    return 2 if topic == SENT_TWICE else 1


def numbered(topic: str, number: int, life: int) -> bytes:
    value = b"%s %d %04d" % (topic.encode(), life, number)
    return batch(value, producer_id=7 + life, epoch=0, sequence=number) if topic == SENT_TWICE else batch(value)


def consume_all(port: int, topic: str, disk: Notes, wanted: int = BATCHES) -> None:
    """Read so many batches from the beginning."""
    offset, seen = 0, 0
    with RawClient(port) as client:
        while seen < wanted:
            for header, data in whole_batches(client.fetch(topic, offset, max_wait_ms=1_000).records):
                disk.mark(Told(topic, header.base_offset, bytes(data)))
                offset, seen = header.next_offset, seen + 1


def test_what_a_client_was_told_outlives_any_power_cut(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    disk = RecordedDisk(root)
    with disk, ServingBroker(root, topics=TOPICS) as broker:
        work = [
            threading.Thread(target=target, args=(broker.port, topic, disk))
            for topic in TOPICS
            for target in (produce_all, consume_all)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join(60)
            assert not thread.is_alive()
    assert disk.is_complete(tmp_path / "whole")
    told = sum(isinstance(operation, Mark) for operation in disk.operations)
    assert told == BATCHES * (len(TOPICS) + sum(map(_times, DURABLE)))
    cut_everywhere(disk, tmp_path / "cut")


def cut_everywhere(disk: RecordedDisk, scratch: Path) -> None:
    promised: dict[str, dict[int, bytes]] = {topic: {} for topic in TOPICS}
    for count, operation in enumerate([*disk.operations, None]):
        is_mark = isinstance(operation, Mark)
        if count and isinstance(mark := disk.operations[count - 1], Mark):
            fact = mark.fact
            promised[fact.topic][fact.offset] = fact.data
        if is_mark:
            continue  # nothing happens on the disk until the next one
        for fate in (Fate(), AnyKept(f"{SEED}/{count}", in_any_order=True)):
            numbers = disk.after(count).write_out(scratch, fate)
            for topic, batches in promised.items():
                with reopened(numbers, after_power_cut=True):
                    there = read(scratch / f"{topic}-0", topic)
                missing = [offset for offset, data in batches.items() if there.get(offset) != data]
                assert not missing, f"{topic} after operation {count}, {fate}: {missing} were promised"
            shutil.rmtree(scratch)


def read(folder: Path, topic: str) -> dict[int, bytes]:
    log = PartitionLog.open(folder, topic=topic, partition=0, config=LogConfig(), now_ms=NOW_MS)
    return {header.base_offset: data for header, data in fetched(log, max_bytes=1 << 20)}
