"""Which offset a point in time has: that of the first record then or later. Source: Kafka's ListOffsets by timestamp.

Timestamps need not ascend, so this is the first in log order, and later ones may be older. Whole segments and stretches are
passed over by their largest timestamp; one batch is opened, with a bound. A search pauses at every batch and in a long one, so
that whoever runs it may do other things in between; the log may grow and lose its oldest segments meanwhile.
"""

import os
from collections.abc import Generator, Iterator
from threading import Lock

from ...wire.errors import WireError
from ...wire.record_batch import BatchHeader, iter_timestamps
from .segment.segment import Segment

OPENED_BYTES = 16 * 1024 * 1024
"""A batch that is larger than this when decompressed is not opened: its first offset is answered, which is early, never late."""
OPENED_RECORDS = 100_000
"""Nor is one with more records, half a microsecond each: a batch of 1.6 KB with 2.4 million took 1.3 s."""
RECORDS_A_STEP = 1_000
"""Between two pauses, half a millisecond. What is never divided is unpacking the batch."""
_paused_batch = Lock()
"""Held by the one search that pauses inside its batch, and so keeps up to `OPENED_BYTES` in memory for as long as its peer's turn
takes to come again. All others go through theirs without a pause.
"""

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
    for one in _timestamps(segment, header):
        if one is None:
            yield
        elif one[1] >= timestamp_ms and one[0] >= from_offset:
            return one
    # A header that promises more than its records hold still has a place in time.
    return None if header.base_offset < from_offset else (header.base_offset, header.max_timestamp_ms)


def _peak_in_batch(segment: Segment, header: BatchHeader, from_offset: int) -> Generator[None, None, int | None]:
    if header.base_offset >= from_offset:
        return header.max_timestamp_ms
    peak: int | None = None
    for one in _timestamps(segment, header):
        if one is None:
            yield
        elif one[0] >= from_offset and (peak is None or one[1] > peak):
            peak = one[1]
    return peak


def _timestamps(segment: Segment, header: BatchHeader) -> Iterator[tuple[int, int] | None]:
    """Yield (offset, timestamp) of each record, of the first alone (early, never late) where the batch is not to be opened.

    None stands for: pause here.
    """
    yielded = 0
    if header.size_bytes <= OPENED_BYTES and header.record_count <= OPENED_RECORDS:
        may_pause = _paused_batch.acquire(blocking=False)
        try:
            file = segment.file()
            batch = os.pread(file.fd, header.size_bytes, header.position - segment.base_offset)
            for record_ms in iter_timestamps(batch, max_decompressed_bytes=OPENED_BYTES):
                yield header.base_offset + yielded, record_ms
                yielded += 1
                if may_pause and yielded % RECORDS_A_STEP == 0:
                    yield None
            return
        except WireError:
            pass  # The producer's records cannot be read; its batch still has a place in time.
        finally:
            if may_pause:
                _paused_batch.release()
    yield header.base_offset, header.max_timestamp_ms
