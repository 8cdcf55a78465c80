"""Topics to read: what was written into them batch by batch, and the offsets at which readers begin.

Three properties of offsets are assumed, which hold for Apache Kafka and for our server: a produce response names the first
record's, those within a batch are consecutive, and they ascend.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headrace.wire.batch.compression import Codec
from tests.clients.answers.side import LIST_OFFSETS, Side, list_offsets
from tests.support.raw_kafka import RawClient, batch

DELETE_RECORDS = 21
EARLIEST, LATEST = -2, -1
_TIME_MS = 1_700_000_000_000


class Values:
    """Gives each record its own value of 8 to 408 bytes, which looks random and is deterministic."""

    def __init__(self, bytes_more: int = 0) -> None:
        self._count = 0
        self._bytes_more = bytes_more

    def __call__(self, count: int) -> list[bytes]:
        return [self._next() for _ in range(count)]

    def _next(self) -> bytes:
        self._count += 1
        return b"%08d" % self._count + b"x" * (self._bytes_more + self._count * 7919 % 400)


DENSE = [b"y" * 20] * 3_000
"""More records than bytes after zstd (gzip needs at least 1.9 bytes a record)."""


@dataclass(frozen=True, slots=True)
class Batch:
    base_offset: int
    values: Sequence[bytes]

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)


@dataclass(slots=True)
class Topic:
    """A topic of one partition. `begin` and `end` are the broker's own."""

    name: str
    side: Side
    batches: list[Batch] = field(default_factory=list)
    begin: int = 0
    end: int = 0

    def append(self, values: Sequence[bytes], codec: Codec = Codec.NONE) -> None:
        with RawClient(self.side.port) as client:
            done = client.produce(self.name, batch(*values, codec=codec, timestamp_ms=_TIME_MS + len(self.batches)), acks=-1)
            assert done.error_code == 0, done
        self.batches.append(Batch(done.base_offset, values))
        self.look()

    def cut(self, offset: int) -> None:
        """Delete the records before `offset`."""
        wanted = [{"name": self.name, "partitions": [{"partition_index": 0, "offset": offset}]}]
        with RawClient(self.side.port) as client:
            (done,) = client.ask(DELETE_RECORDS, 1, {"topics": wanted, "timeout_ms": 10_000}).topics
        assert int(done.partitions[0].error_code) == 0, done
        self.look()
        assert self.begin == offset

    def look(self) -> None:
        with RawClient(self.side.port) as client:
            for time in (EARLIEST, LATEST):
                (found,) = client.ask(LIST_OFFSETS, 5, list_offsets(self.name, time)).topics
                offset = int(found.partitions[0].offset)
                self.begin, self.end = (offset, self.end) if time == EARLIEST else (self.begin, offset)

    def records(self, from_: int = 0) -> list[tuple[int, bytes]]:
        """Return (offset, value) of the records from an offset on, without the deleted ones."""
        first = max(from_, self.begin)
        numbered = ((one.base_offset + at, value) for one in self.batches for at, value in enumerate(one.values))
        return [(offset, value) for offset, value in numbered if offset >= first]

    def starts(self) -> Mapping[str, int]:
        """Return offsets to begin at, by description, each offset once."""
        found = {offset: name for name, offset in self._starts() if self.begin <= offset <= self.end}
        return {name: offset for offset, name in sorted(found.items())}

    def start(self, what: str) -> int:
        """Return one of them by its description."""
        return dict(self._starts())[what]

    def _starts(self) -> Iterator[tuple[str, int]]:
        yield "the log's begin", self.begin
        first = next(one for one in self.batches if one.next_offset > self.begin)
        yield "inside the gap in front of the first record", first.base_offset // 2
        yield "right in front of the first record", first.base_offset - 1
        yield "the first record", first.base_offset
        largest = max(self.batches[1:-1] or self.batches, key=lambda one: len(one.values))
        yield "the middle of a batch", largest.base_offset + len(largest.values) // 2
        yield "the last record of a batch", largest.next_offset - 1
        gaps = [(one.next_offset, other.base_offset) for one, other in pairwise(self.batches)]
        for which, (low, high) in {"widest": max(gaps, key=lambda gap: gap[1] - gap[0]), "last": gaps[-1]}.items():
            yield f"right behind a record, where the {which} gap begins", low
            yield f"inside the {which} gap", (low + high) // 2
            yield f"where the {which} gap ends", high - 1
            yield f"the record behind the {which} gap", high
        yield "the last record", self.batches[-1].next_offset - 1
        yield "right behind the last record", self.batches[-1].next_offset
        yield "inside what follows the last record", (self.batches[-1].next_offset + self.end) // 2
        yield "the log's end", self.end


def sizes(topic: Topic) -> None:
    """Batches of several sizes, every other one compressed."""
    values = Values()
    for number, count in enumerate((1, 3, 1, 50, 2, 7)):
        topic.append(values(count), Codec.GZIP if number % 2 else Codec.NONE)


def cut(topic: Topic) -> None:
    sizes(topic)
    topic.cut(topic.batches[3].base_offset + 20)


def dense(topic: Topic) -> None:
    """Batches with more records than bytes, in the middle and at the end."""
    values = Values()
    topic.append(values(3), Codec.ZSTD)
    topic.append(DENSE, Codec.ZSTD)
    topic.append(values(2))
    topic.append(DENSE, Codec.ZSTD)


def codecs(topic: Topic) -> None:
    values = Values()
    for codec in (Codec.SNAPPY, Codec.LZ4, Codec.NONE, Codec.SNAPPY):
        topic.append(values(20), codec)


def segments(topic: Topic) -> None:
    """Small batches in many small segments (ours; Apache Kafka takes no segments as small)."""
    values = Values()
    for number in range(40):
        topic.append(values(1 + number % 4))


def large(topic: Topic) -> None:
    """More than one fetch response can hold."""
    values = Values(3_000)
    for _ in range(25):
        topic.append(values(30))


FILLED = {one.__name__: one for one in (sizes, cut, dense, codecs, segments, large)}
IN_CODECS = {"dense": {Codec.ZSTD}, "codecs": {Codec.SNAPPY, Codec.LZ4}}
"""Codecs besides none and gzip, which every client has."""
SMALL_SEGMENTS = {"segments": {"segment.bytes": "1000"}}
KEPT = {"retention.ms": "-1"}
"""Apache Kafka would delete records of 2023."""


def filled(side: Side, name: str, which: str, config: Mapping[str, str]) -> Topic:
    """Return a new topic, filled."""
    topic = Topic(side.make(name, 1, config), side)
    FILLED[which](topic)
    return topic
