"""Which offset a point in time has: that of the first record then or later. Source: Kafka's ListOffsets by timestamp.

Timestamps need not ascend, so this is the first in log order, and later ones may be older. Whole segments and stretches are
passed over by their largest timestamp; one batch is opened, with a bound. A search pauses at every batch and in a long one, so
that whoever runs it may do other things in between; the log may grow and lose its oldest segments meanwhile.
"""

import os
from collections.abc import Generator, Iterator

from ...wire.errors import WireError
from ...wire.record_batch import BatchHeader, iter_timestamps
from .segment import Segment

OPENED_BYTES = 16 * 1024 * 1024
"""A batch that is larger than this when decompressed is not opened: its first offset is answered, which is early, never late."""
OPENED_RECORDS = 100_000
"""Nor is one with more records, half a microsecond each: a batch of 1.6 KB with 2.4 million took 1.3 s."""
RECORDS_A_STEP = 1_000
"""Between two pauses, half a millisecond. What is never divided is unpacking the batch."""

Found = Generator[None, None, tuple[int, int] | None]
"""Pauses now and then; returns (offset, timestamp), None where there is none."""


def first_at_or_after(segments: Iterator[Segment], timestamp_ms: int, from_offset: int) -> Found:
    """Return (offset, timestamp) of the first record from `from_offset`, the log's start, on that is at or after `timestamp_ms`.

    None when there is none. Raises OSError.
    """
    for segment in segments:
        yield
        start = segment.starts.first_reaching(timestamp_ms)
        if start is None:
            continue
        if start < from_offset and (start := segment.locate(from_offset)) is None:
            continue
        for header in segment.headers(start):
            if header.max_timestamp_ms >= timestamp_ms:
                found = yield from _in_batch(segment, header, timestamp_ms, from_offset)
                if found is not None:
                    return found
            yield
    return None


def largest(segments: Iterator[Segment], from_offset: int) -> Generator[None, None, int | None]:
    """Return the largest timestamp from `from_offset`, the log's start, on. Raises OSError.

    That takes a walk through the first segment where the log starts in the middle of it, and through one without batch starts.
    """
    peaks: list[int] = []
    for segment in segments:
        yield
        if segment.base_offset < from_offset or not segment.is_indexed:
            start = segment.locate(max(from_offset, segment.base_offset))
            for header in () if start is None else segment.headers(start):
                peak = yield from _peak_in_batch(segment, header, from_offset)
                if peak is not None:
                    peaks.append(peak)
                yield
        elif segment.starts.peak_ms is not None:
            peaks.append(segment.starts.peak_ms)
    return max(peaks, default=None)


def _in_batch(segment: Segment, header: BatchHeader, timestamp_ms: int, from_offset: int) -> Found:
    """Return the record, None when all that are as late as this stand before the log's start."""
    for number, (offset, record_ms) in enumerate(_timestamps(segment, header), 1):
        if record_ms >= timestamp_ms and offset >= from_offset:
            return offset, record_ms
        if number % RECORDS_A_STEP == 0:
            yield
    # A header that promises more than its records hold still has a place in time.
    return None if header.base_offset < from_offset else (header.base_offset, header.max_timestamp_ms)


def _peak_in_batch(segment: Segment, header: BatchHeader, from_offset: int) -> Generator[None, None, int | None]:
    if header.base_offset >= from_offset:
        return header.max_timestamp_ms
    peak: int | None = None
    for number, (offset, record_ms) in enumerate(_timestamps(segment, header), 1):
        if offset >= from_offset and (peak is None or record_ms > peak):
            peak = record_ms
        if number % RECORDS_A_STEP == 0:
            yield
    return peak


def _timestamps(segment: Segment, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yield (offset, timestamp) of each record, of the first alone (early, never late) where the batch is not to be opened."""
    yielded = 0
    if header.size_bytes <= OPENED_BYTES and header.record_count <= OPENED_RECORDS:
        file = segment.file()
        batch = os.pread(file.fd, header.size_bytes, header.base_offset - segment.base_offset)
        try:
            for record_ms in iter_timestamps(batch, max_decompressed_bytes=OPENED_BYTES):
                yield header.base_offset + yielded, record_ms
                yielded += 1
            return
        except WireError:
            pass  # The producer's records cannot be read; its batch still has a place in time.
    yield header.base_offset, header.max_timestamp_ms
