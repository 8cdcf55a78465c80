"""Find the offset for a point in time: that of the first record then or later. Source: Kafka's ListOffsets by timestamp.

Timestamps need not ascend: the result is the first such record in log order, and later records may be older. Segments and regions
are skipped by their largest timestamp; one batch is opened, with a bound. A search pauses at every batch, and inside a long
batch, so that its caller can do other work in between. Meanwhile the log may grow and may lose its oldest segments.
"""

import os
from collections.abc import Generator, Iterator
from threading import Lock

from ...wire.batch.record_batch import BatchHeader, iter_timestamps
from ...wire.errors import WireError
from .segment.segment import Segment

OPENED_BYTES = 16 * 1024 * 1024
"""A batch that is larger when decompressed is not opened. Its first offset is returned, which may be early, but never late."""
OPENED_RECORDS = 100_000
"""A batch with more records is not opened either, at half a microsecond each: one of 1.6 KB with 2.4 million took 1.3 s."""
RECORDS_A_STEP = 1_000
"""The records between two pauses, half a millisecond. The decompression of a batch is never divided."""
_paused_batch = Lock()
"""Held by the one search that may pause inside its batch. It keeps up to `OPENED_BYTES` in memory until it is resumed, so all
other searches read their batch without a pause.
"""

Found = Generator[None, None, tuple[int, int] | None]
"""Pauses now and then; returns (offset, timestamp), or None."""


def first_at_or_after(segments: Iterator[Segment], timestamp_ms: int, from_offset: int) -> Found:
    """Return (offset, timestamp) of the first record at `timestamp_ms` or later, None when there is none. Raises OSError.

    The search begins at `from_offset`, the log start.
    """
    for segment in segments:
        yield
        start = segment.index.starts.first_reaching(timestamp_ms)
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
    """Return the largest timestamp from `from_offset`, the log start, on. Raises OSError.

    Walks through the first segment when the log starts inside it, and through each segment without a complete index.
    """
    peaks: list[int] = []
    for segment in segments:
        yield
        if segment.base_offset < from_offset or not segment.index.is_complete:
            start = segment.locate(max(from_offset, segment.base_offset))
            for header in () if start is None else segment.headers(start):
                peak = yield from _peak_in_batch(segment, header, from_offset)
                if peak is not None:
                    peaks.append(peak)
                yield
        elif segment.index.starts.peak_ms is not None:
            peaks.append(segment.index.starts.peak_ms)
    return max(peaks, default=None)


def _in_batch(segment: Segment, header: BatchHeader, timestamp_ms: int, from_offset: int) -> Found:
    """Return the record, None when all records at `timestamp_ms` or later are before the log start."""
    for one in _timestamps(segment, header):
        if one is None:
            yield
        elif one[1] >= timestamp_ms and one[0] >= from_offset:
            return one
    # A header may promise a later time than any record has: then the header's time counts.
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
    """Yield (offset, timestamp) of each record, of the first alone when the batch is not opened. None means: pause here."""
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
            pass  # The records cannot be read: the header's time counts.
        finally:
            if may_pause:
                _paused_batch.release()
    yield header.base_offset, header.max_timestamp_ms
