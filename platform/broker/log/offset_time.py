"""Which offset a point in time has: that of the first record then or later. Source: Kafka's ListOffsets by timestamp.

Timestamps need not ascend, so this is the first in log order, and later ones may be older. Whole segments and stretches are
passed over by their largest timestamp; one batch is opened, with a bound.
"""

import os
from collections.abc import Iterable, Iterator

from ...wire.errors import WireError
from ...wire.record_batch import BatchHeader, iter_timestamps
from .segment import Segment

OPENED_BYTES = 16 * 1024 * 1024
"""A batch that is larger than this when decompressed is not opened: its first offset is answered, which is early, never late."""
OPENED_RECORDS = 100_000
"""Nor is one with more records, half a microsecond each: a batch of 1.6 KB with 2.4 million kept the loop for 1.3 s."""


def first_at_or_after(segments: Iterable[Segment], timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
    """Return (offset, timestamp) of the first record from `from_offset`, the log's start, on that is at or after `timestamp_ms`.

    None when there is none. Raises OSError.
    """
    for segment in segments:
        start = segment.starts.first_reaching(timestamp_ms)
        if start is None:
            continue
        if start < from_offset and (start := segment.locate(from_offset)) is None:
            continue
        for header in segment.headers(start):
            if header.max_timestamp_ms >= timestamp_ms:
                found = _in_batch(segment, header, timestamp_ms, from_offset)
                if found is not None:
                    return found
    return None


def largest(segments: Iterable[Segment], from_offset: int) -> int | None:
    """Return the largest timestamp from `from_offset`, the log's start, on. Raises OSError.

    That takes a walk through the first segment where the log starts in the middle of it, and through one without batch starts.
    """
    peaks: list[int] = []
    for segment in segments:
        if segment.base_offset < from_offset or not segment.is_indexed:
            start = segment.locate(max(from_offset, segment.base_offset))
            headers = () if start is None else segment.headers(start)
            peaks += (peak for header in headers if (peak := _peak_in_batch(segment, header, from_offset)) is not None)
        elif segment.starts.peak_ms is not None:
            peaks.append(segment.starts.peak_ms)
    return max(peaks, default=None)


def _in_batch(segment: Segment, header: BatchHeader, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
    """Return the record, None when all that are as late as this stand before the log's start."""
    for offset, record_ms in _timestamps(segment, header):
        if record_ms >= timestamp_ms and offset >= from_offset:
            return offset, record_ms
    # A header that promises more than its records hold still has a place in time.
    return None if header.base_offset < from_offset else (header.base_offset, header.max_timestamp_ms)


def _peak_in_batch(segment: Segment, header: BatchHeader, from_offset: int) -> int | None:
    if header.base_offset >= from_offset:
        return header.max_timestamp_ms
    return max((record_ms for offset, record_ms in _timestamps(segment, header) if offset >= from_offset), default=None)


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
