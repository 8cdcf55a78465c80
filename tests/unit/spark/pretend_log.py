"""A partition's log as a list of real batches, byte-addressed or dense: the pretend network edge of this room's unit tests."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headrace.client.fetch.fetched import CorruptRange
from headrace.spark.source.offset_ranges import OffsetRange
from headrace.spark.source.record_reader import CorruptOffsets
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import BatchBuilder, BatchHeader, place, read_header


@dataclass
class PretendLog:
    """Batches in order; `corrupt` are ranges that a client's check would have refused."""

    batches: list[bytes]
    corrupt: list[CorruptRange]
    end: int

    def read(self, wanted: OffsetRange, on_corrupt: Callable[[CorruptOffsets], None]) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield what touches the range, as `client.fetcher.read_range` does."""
        told = [bad for bad in self.corrupt if bad.to_offset > wanted.from_offset and bad.from_offset < wanted.to_offset]
        for batch in self.batches:
            header = read_header(batch)
            if header.next_offset <= wanted.from_offset:
                continue
            if header.base_offset >= wanted.to_offset:
                break
            while told and told[0].from_offset < header.base_offset:
                on_corrupt(told.pop(0))
            yield header, memoryview(batch)
        for bad in told:
            on_corrupt(bad)


Event = tuple[int, bytes | None]
"""Timestamp in milliseconds, value."""


def pretend_log(batches: Sequence[Sequence[Event]], *, dense: bool = False, codec: Codec = Codec.NONE) -> PretendLog:
    """Return the log that holds these events, a batch for each inner list."""
    written, at = [], 0
    for events in batches:
        builder = BatchBuilder(codec=codec)
        for timestamp_ms, value in events:
            builder.append(timestamp_ms, None, value)
        batch = bytearray(builder.build())
        if dense:
            batch[0:8] = at.to_bytes(8, "big")
            at += len(events)
        else:
            at += place(batch, at)
        written.append(bytes(batch))
    return PretendLog(batches=written, corrupt=[], end=at)
