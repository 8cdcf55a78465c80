"""The records of an offset range, each exactly once; unreadable offsets are returned as `Unreadable` at their place.

Knows batches and offsets, not payloads. The caller passes the source of batches: `client.fetch.read_range`, or a test's list.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ...wire.batch.record_batch import BatchHeader, Record, iter_records
from ...wire.errors import CorruptBatch
from .offset_ranges import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """The offsets [from_offset, to_offset) cannot be read."""

    partition: int
    from_offset: int
    to_offset: int
    record_count: int
    """The records that earlier tiers count for it: the header's number if the CRC matched, else 0."""
    timestamp_ms: int | None
    """The batch's maximum timestamp, by which `audit.counter` dates such a batch at every tier; None if there is none."""
    reason: str
    payload: bytes


class CorruptOffsets(Protocol):
    """Offsets whose batch failed its check (`client.fetch.fetched.CorruptRange`)."""

    @property
    def from_offset(self) -> int: ...

    @property
    def to_offset(self) -> int: ...

    @property
    def reason(self) -> str: ...


Batches = Callable[[OffsetRange, Callable[[CorruptOffsets], None]], Iterator[tuple[BatchHeader, memoryview]]]
"""Yields, in offset order, every batch that overlaps the range; calls the callback for offsets that failed their check."""


def read_records(batches: Batches, wanted: OffsetRange) -> Iterator[Record | Unreadable]:
    """As `read_runs`, one by one."""
    for one in read_runs(batches, wanted):
        if isinstance(one, Unreadable):
            yield one
        else:
            yield from one


def read_runs(batches: Batches, wanted: OffsetRange) -> Iterator[list[Record] | Unreadable]:
    """Yield every record whose offset is in `wanted`, in order, those of a batch together, and every unreadable range that begins
    in it.

    An unreadable range that begins before `wanted` belongs to the neighbour, so it is returned once, however the ranges were cut.
    A batch that cannot be opened to its end is one unreadable range, because the audit counts it as a whole.
    """
    waiting: list[Unreadable] = []

    def on_corrupt(unreadable: CorruptOffsets) -> None:
        if wanted.from_offset <= unreadable.from_offset < wanted.to_offset:
            waiting.append(
                Unreadable(
                    partition=wanted.partition,
                    from_offset=unreadable.from_offset,
                    to_offset=unreadable.to_offset,
                    record_count=0,
                    timestamp_ms=None,
                    reason=unreadable.reason,
                    payload=b"",
                )
            )

    for header, batch in batches(wanted, on_corrupt):
        yield from waiting
        waiting.clear()
        try:
            records = list(iter_records(batch))
            if not header.is_control and len(records) != header.record_count:
                raise CorruptBatch(f"{len(records)} records where the header counts {header.record_count}")
        except CorruptBatch as error:
            # The CRC matched, so a producer wrote this.
            if wanted.from_offset <= header.base_offset < wanted.to_offset:
                yield _unopened(wanted.partition, header, batch, str(error))
            continue
        if wanted.from_offset <= header.base_offset and (not records or records[-1].offset < wanted.to_offset):
            yield records
        else:
            yield [record for record in records if wanted.from_offset <= record.offset < wanted.to_offset]
    yield from waiting


def _unopened(partition: int, header: BatchHeader, batch: memoryview, reason: str) -> Unreadable:
    return Unreadable(
        partition=partition,
        from_offset=header.base_offset,
        to_offset=header.next_offset,
        record_count=header.record_count,
        timestamp_ms=header.max_timestamp_ms,
        reason=reason,
        payload=bytes(batch),
    )
