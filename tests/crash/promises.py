"""What a broker promises its clients about a disk whose power will be cut: acknowledged batches are on disk, and consumers see
only what is. For any kind of disk that records which facts were known at which moment.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.broker.log import LogConfig, PartitionLog
from headrace.wire.messages import produce
from tests.crash.load import placed, whole_batches
from tests.crash.possible_disk import reopened
from tests.support.raw_kafka import RawClient, batch, produce_body
from tests.support.small_logs import NOW_MS, fetched

BATCHES = 30
IN_FLIGHT = 8
SEGMENTS = {"segment.bytes": "600"}
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "always": (1, {"flush.ack": "always", **SEGMENTS}),
    "by-ones": (1, {"flush.messages": "1", **SEGMENTS}),
    "twice": (1, {"flush.ack": "always", **SEGMENTS}),
    "interval": (1, {"flush.ack": "interval", "flush.ms": "5", **SEGMENTS}),
}
DURABLE = ("always", "by-ones", "twice")
SENT_TWICE = "twice"
"""An idempotent producer's topic: each batch is sent again before it is on disk, and that response promises the same."""
LONGEST_S = 60

Promised = dict[str, dict[int, bytes]]
"""Topic and offset to the promised batch."""


@dataclass(frozen=True)
class Told:
    """A client received the acknowledgement of this batch, or the batch itself."""

    topic: str
    offset: int
    data: bytes


class Notes(Protocol):
    """Records which facts were known at which moment of a disk."""

    def mark(self, fact: object) -> None: ...


def nothing_promised() -> Promised:
    return {topic: {} for topic in TOPICS}


def tell_all(port: int, notes: Notes, *, life: int = 0, there: Mapping[str, int] | None = None) -> int:
    """Write to and read from each topic; return how many promises were made.

    `life` says how often the broker was started before, `there` how many batches a topic holds.
    """
    known = there or {}
    with ThreadPoolExecutor(2 * len(TOPICS)) as pool:
        work = [pool.submit(_produce, port, topic, notes, life) for topic in TOPICS]
        work += [pool.submit(_consume, port, topic, notes, known.get(topic, 0) + BATCHES) for topic in TOPICS]
        return sum(each.result(LONGEST_S) for each in work)


def all_is_kept(promised: Promised, folder: Path, numbers: dict[int, int], when: str) -> None:
    """Open every log below `folder` as after a power cut (`numbers`: see `reopened`) and assert that every promised batch is
    there.
    """
    for topic, batches in promised.items():
        with reopened(numbers, after_power_cut=True):
            log = PartitionLog.open(folder / f"{topic}-0", topic=topic, partition=0, config=LogConfig(), now_ms=NOW_MS)
            there = {header.base_offset: data for header, data in fetched(log, max_bytes=1 << 20)}
        missing = [offset for offset, data in batches.items() if there.get(offset) != data]
        assert not missing, f"{topic}, {when}: {missing} were promised"


def _produce(port: int, topic: str, notes: Notes, life: int) -> int:
    times = 2 if topic == SENT_TWICE else 1
    batches = [_numbered(topic, number, life) for number in range(BATCHES) for _ in range(times)]
    told = 0
    with RawClient(port) as client:
        for number in range(len(batches) + IN_FLIGHT):
            if number < len(batches):
                client.send(produce.API_KEY, 9, produce_body(topic, batches[number], acks=-1))
            if number >= IN_FLIGHT:
                answer = produce.decode_response(9, client.receive(produce.API_KEY, 9)[1]).topics[0].partitions[0]
                assert answer.error_code == 0
                if topic in DURABLE:
                    data = placed(batches[number - IN_FLIGHT], answer.base_offset)
                    notes.mark(Told(topic, answer.base_offset, data))
                    told += 1
    return told


def _numbered(topic: str, number: int, life: int) -> bytes:
    value = b"%s %d %04d" % (topic.encode(), life, number)
    return batch(value, producer_id=7 + life, epoch=0, sequence=number) if topic == SENT_TWICE else batch(value)


def _consume(port: int, topic: str, notes: Notes, wanted: int) -> int:
    offset, seen = 0, 0
    with RawClient(port) as client:
        while seen < wanted:
            for header, data in whole_batches(client.fetch(topic, offset, max_wait_ms=1_000).records):
                notes.mark(Told(topic, header.base_offset, bytes(data)))
                offset, seen = header.next_offset, seen + 1
    return seen
