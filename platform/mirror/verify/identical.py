"""Compares two copies with the same offsets: a batch is the same if base offset, size and CRC are. Pure.

The CRC was computed over each side's bytes as they were read. It covers all of a batch but base offset, length and leader epoch;
the first two are compared here, the epoch is each cluster's own. Runs of equal batches are compared as lists, at a third of a
microsecond a batch; only where they differ are offsets looked at.
"""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import NamedTuple

from ...client.fetch.fetched import TopicPartition
from ...wire.batch.record_batch import BatchHeader
from .findings import Finding, Findings, Kind
from .read_ahead import Chunk

_KEY: Callable[[BatchHeader], tuple[int, int, int]] = itemgetter(0, 1, 3)  # base offset, size, CRC
_NO_CRC = -1


class _Item(NamedTuple):
    """A batch of one side, or a range of it that cannot be compared."""

    begin: int
    end: int
    why: Kind | None = None
    size_bytes: int = 0
    crc: int = _NO_CRC


class _Side:
    """One side's batches: as keys while they are equal, as items where they differ."""

    def __init__(self, chunks: Iterator[Chunk], unreadable: Kind, expired: Kind) -> None:
        self._chunks = chunks
        self._unreadable = unreadable
        self._expired = expired
        self.headers: list[BatchHeader] = []
        self.keys: list[tuple[int, int, int]] = []
        self.at = 0
        self.bad: list[_Item] = []
        """Ranges of this chunk, in order, that hold no batch to compare."""
        self.is_ended = False

    def fill(self) -> bool:
        """Return whether there is anything left; read on if the current chunk is used up."""
        while self.at >= len(self.keys) and not self.bad:
            chunk = next(self._chunks, None)
            if chunk is None:
                self.is_ended = True
                return False
            self.headers = [header for header, _ in chunk.batches]
            self.keys = list(map(_KEY, self.headers))
            self.at = 0
            self.bad = [_Item(begin, end, self._unreadable) for begin, end in chunk.unreadable]
            if chunk.expired is not None:
                self.bad.append(_Item(*chunk.expired, self._expired))
        return True

    def head(self) -> _Item:
        """Return what stands first. Only after `fill`."""
        batch = None
        if self.at < len(self.headers):
            header = self.headers[self.at]
            batch = _Item(header.position, header.next_offset, None, header.size_bytes, header.crc)
        if self.bad and (batch is None or self.bad[0].begin <= batch.begin):
            return self.bad[0]
        assert batch is not None
        return batch

    def drop(self) -> None:
        """Go on behind the head."""
        if self.head().why is not None:
            del self.bad[0]
        else:
            self.at += 1


def compare(
    name: TopicPartition,
    source: Iterator[Chunk],
    destination: Iterator[Chunk],
    findings: Findings,
    progress: Callable[[int], None] = lambda offset: None,
) -> None:
    """Add to `findings` what differs; both sides are read to their end. `progress` is told offsets of the source."""
    ours = _Side(source, Kind.UNREADABLE_IN_SOURCE, Kind.EXPIRED_IN_SOURCE)
    theirs = _Side(destination, Kind.UNREADABLE_IN_DESTINATION, Kind.EXPIRED_IN_DESTINATION)
    while True:
        if not (ours.fill() and theirs.fill()):
            break
        if not (ours.bad or theirs.bad) and (run := _equal_run(ours, theirs)):
            findings.batches += run
            findings.bytes += sum(key[1] for key in ours.keys[ours.at : ours.at + run])
            ours.at += run
            theirs.at += run
            progress(ours.headers[ours.at - 1].next_offset)
            continue
        _step(name, ours, theirs, findings)
    for side, alone in ((ours, Kind.MISSING), (theirs, Kind.EXTRA)):
        while side.fill():
            item = side.head()
            _told(findings, name, item, alone)
            side.drop()
            progress(item.end)


def _equal_run(ours: _Side, theirs: _Side) -> int:
    """Return how many batches from here on are the same; 0: not even the next, or it takes a closer look."""
    count = min(len(ours.keys) - ours.at, len(theirs.keys) - theirs.at)
    while count:
        if ours.keys[ours.at : ours.at + count] == theirs.keys[theirs.at : theirs.at + count]:
            return count
        count //= 2
    return 0


def _step(name: TopicPartition, ours: _Side, theirs: _Side, findings: Findings) -> None:
    one, other = ours.head(), theirs.head()
    if one == other:
        findings.batches += 1
        findings.bytes += one.size_bytes
        ours.drop()
        theirs.drop()
    elif one.end <= other.begin:
        _told(findings, name, one, Kind.MISSING)
        ours.drop()
    elif other.end <= one.begin:
        _told(findings, name, other, Kind.EXTRA)
        theirs.drop()
    else:
        kind = one.why or other.why or Kind.ALTERED
        both = min(one.begin, other.begin), max(one.end, other.end)
        if one.why or other.why:
            both = max(one.begin, other.begin), min(one.end, other.end)
        findings.add(_finding(kind, name, both))
        # A range that is not over may touch the other side's next batches, too.
        if one.end <= other.end:
            ours.drop()
            findings.batches += one.why is None
            findings.bytes += one.size_bytes
        if other.end <= one.end:
            theirs.drop()


def _told(findings: Findings, name: TopicPartition, item: _Item, alone: Kind) -> None:
    """Enter what is on one side only; a range that cannot be read there is reported as that."""
    findings.add(_finding(item.why or alone, name, (item.begin, item.end)))
    if alone is Kind.MISSING and item.why is None:
        findings.batches += 1
        findings.bytes += item.size_bytes


def _finding(kind: Kind, name: TopicPartition, offsets: tuple[int, int]) -> Finding:
    return Finding(kind=kind, topic=name.topic, partition=name.partition, source=offsets, destination=offsets, batches=1)
