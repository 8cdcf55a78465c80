"""Compares a source with a copy whose offsets are others, batch by batch, as the mirror's ledger leads from one to the other.
Pure.

The ledger says which batch of the source stands where. That they are the same is not taken from it: size, count of records and
the CRC with the producer's fields neutral (`wire.batch.restamp`) are compared, and both CRCs were computed over the bytes that
were read. A batch that no broker takes as it is (`needs_rebuilding`) is created again from the source's bytes first, as the
mirror did.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...client.fetch.fetched import TopicPartition
from ...wire.batch.record_batch import BatchHeader, read_header
from ...wire.batch.restamp import NEUTRAL, crc_under, needs_rebuilding, rebuilt
from ...wire.errors import CorruptBatch
from ...wire.mirror_ledger import CopiedBatch, LedgerEntry, SkippedRange
from .findings import Finding, Findings, Kind
from .read_ahead import Chunk

REFUSED = "refused"


class _Item(NamedTuple):
    begin: int
    """The base offset, by which the ledger names a batch."""
    end: int
    why: Kind | None = None
    header: BatchHeader | None = None
    batch: memoryview | None = None
    shown: int | None = None
    """Where the batch begins in its log, where that is not its base offset: in a log with offsets in bytes."""

    @property
    def offsets(self) -> tuple[int, int]:
        return self.begin if self.shown is None else self.shown, self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where the two logs begin now, and whether the source's is compacted."""

    source_start: int = 0
    destination_start: int = 0
    is_compacted: bool = False
    source_in_bytes: bool = False
    """Whether the source's offsets are positions in bytes (our broker's)."""
    destination_in_bytes: bool = False


class _Side:
    """One side's batches and unreadable ranges by offset, one ahead."""

    def __init__(self, chunks: Iterable[Chunk], unreadable: Kind, expired: Kind, *, in_bytes: bool) -> None:
        self._items = _items(chunks, unreadable, expired, in_bytes=in_bytes)
        self.head = next(self._items, None)

    def drop(self) -> None:
        self.head = next(self._items, None)


def compare(
    name: TopicPartition,
    source: Iterable[Chunk],
    ledger: Iterable[LedgerEntry],
    destination: Iterable[Chunk],
    findings: Findings,
    bounds: Bounds,
    progress: Callable[[int], None] = lambda offset: None,
) -> Finding | None:
    """Add to `findings` what differs. Return the range behind the ledger's last batch that only the destination holds: it is
    extra, unless a running mirror has copied it meanwhile.
    """
    ours = _Side(source, Kind.UNREADABLE_IN_SOURCE, Kind.EXPIRED_IN_SOURCE, in_bytes=bounds.source_in_bytes)
    theirs = _Side(destination, Kind.UNREADABLE_IN_DESTINATION, Kind.EXPIRED_IN_DESTINATION, in_bytes=bounds.destination_in_bytes)
    skipped: list[SkippedRange] = []
    for entry in ledger:
        skipped = [one for one in skipped if ours.head is not None and one.to_offset > ours.head.begin]
        skipped += entry.skipped
        for copied in entry.batches:
            _pass_source(name, ours, copied.source_base, skipped, findings)
            _pass_destination(name, theirs, copied.destination_base, findings)
            _pair(name, ours, theirs, copied, findings, bounds)
        progress(entry.to_offset)
    _pass_source(name, ours, None, skipped, findings)
    tail: Finding | None = None
    while theirs.head is not None:
        found = _alone(name, theirs.head, Kind.EXTRA, in_source=False)
        if found.kind is Kind.EXTRA:
            tail = found if tail is None else tail.joined(found) or tail
        else:
            findings.add(found)
        theirs.drop()
    return tail


def _pass_source(name: TopicPartition, ours: _Side, until: int | None, skipped: list[SkippedRange], findings: Findings) -> None:
    """Tell what the source holds before `until` and the ledger names nowhere."""
    while (item := ours.head) is not None and (until is None or item.begin < until):
        told = next((one for one in skipped if one.from_offset <= item.begin < one.to_offset), None)
        kind = Kind.REFUSED if told is not None and told.reason == REFUSED else Kind.MISSING
        findings.add(_alone(name, item, kind, in_source=True))
        if item.header is not None:
            findings.batches += 1
            findings.bytes += item.header.size_bytes
        ours.drop()


def _pass_destination(name: TopicPartition, theirs: _Side, until: int, findings: Findings) -> None:
    while (item := theirs.head) is not None and item.begin < until:
        if item.end <= until or item.why is None:
            findings.add(_alone(name, item, Kind.EXTRA, in_source=False))
            theirs.drop()
        else:
            return  # a damaged range that reaches over the batch that is wanted


def _pair(name: TopicPartition, ours: _Side, theirs: _Side, copied: CopiedBatch, findings: Findings, bounds: Bounds) -> None:
    """Compare one batch of the ledger with what both sides hold for it."""
    one = ours.head if ours.head is not None and ours.head.begin < copied.source_next else None
    other = theirs.head if theirs.head is not None and theirs.head.begin < copied.destination_next else None
    kind: Kind | None
    if one is None or one.header is None:
        kind = one.why if one is not None else Kind.EXTRA
        if one is None and copied.source_base < bounds.source_start:
            kind = Kind.EXPIRED_IN_SOURCE
        elif one is None and bounds.is_compacted:
            kind = Kind.COMPACTED_IN_SOURCE
        if other is None:
            kind = None if one is None else kind  # neither side holds it (any more)
    elif other is None or other.header is None:
        kind = other.why if other is not None else Kind.MISSING
        if other is None and copied.destination_base < bounds.destination_start:
            kind = Kind.EXPIRED_IN_DESTINATION
    elif _are_same(one, other.header, copied):
        kind = None
    else:
        kind = Kind.COMPACTED_IN_SOURCE if bounds.is_compacted else Kind.ALTERED
    if one is not None and one.header is not None:
        findings.batches += 1
        findings.bytes += one.header.size_bytes
    if kind is not None:
        findings.add(
            Finding(
                kind=kind,
                topic=name.topic,
                partition=name.partition,
                source=(copied.source_base, copied.source_next) if one is None else one.offsets,
                destination=(copied.destination_base, copied.destination_next) if other is None else other.offsets,
                batches=1,
            )
        )
    for side, item, end in ((ours, one, copied.source_next), (theirs, other, copied.destination_next)):
        if item is not None and (item.header is not None or item.end <= end):
            side.drop()


def _are_same(one: _Item, there: BatchHeader, copied: CopiedBatch) -> bool:
    assert one.header is not None
    header = one.header
    if (header.base_offset, there.base_offset) != (copied.source_base, copied.destination_base):
        return False
    if needs_rebuilding(header):
        assert one.batch is not None
        try:
            header = read_header(rebuilt(header, one.batch)[0])
        except CorruptBatch:
            return False
    return (header.size_bytes, header.record_count, crc_under(header, NEUTRAL)) == (
        there.size_bytes,
        there.record_count,
        crc_under(there, NEUTRAL),
    )


def _alone(name: TopicPartition, item: _Item, kind: Kind, *, in_source: bool) -> Finding:
    return Finding(
        kind=item.why or kind,
        topic=name.topic,
        partition=name.partition,
        source=item.offsets if in_source else None,
        destination=None if in_source else item.offsets,
        batches=1,
    )


def _items(chunks: Iterable[Chunk], unreadable: Kind, expired: Kind, *, in_bytes: bool) -> Iterator[_Item]:
    """Yield what the chunks hold, by offset. An item reaches over the transaction markers and aborted batches right behind it, so
    that two findings with only those between them are one range.
    """
    held: _Item | None = None
    for chunk in chunks:
        found = [_Item(begin, end, unreadable) for begin, end in chunk.unreadable]
        if chunk.expired is not None:
            found.append(_Item(*chunk.expired, expired))
        found += (
            _Item(header.base_offset, header.next_offset, None, header, batch, header.position if in_bytes else None)
            for header, batch in chunk.batches
        )
        found += (_Item(begin, end) for begin, end in chunk.without_data)
        for item in sorted(found, key=lambda one: one.begin):
            if item.why is not None or item.header is not None:
                if held is not None:
                    yield held
                held = item
            elif held is not None and item.begin <= held.end:
                held = held._replace(end=item.end)
    if held is not None:
        yield held
