"""Which offset a point in time has: that of the first record then or later. Source: Kafka's ListOffsets by timestamp.

Timestamps need not ascend, so this is the first in log order, and later ones may be older. Whole segments and stretches are
passed over by their largest timestamp; one batch is opened, with a bound.
"""

import os
from collections.abc import Iterable

from ...wire.errors import WireError
from ...wire.record_batch import BatchHeader, iter_timestamps
from .segment import Segment

OPENED_BYTES = 16 * 1024 * 1024
"""A batch that is larger than this when decompressed is not opened: its first offset is answered, which is early, never late."""


def first_at_or_after(segments: Iterable[Segment], timestamp_ms: int) -> tuple[int, int] | None:
    """Return (offset, timestamp) of the first record at or after `timestamp_ms`; None when there is none. Raises OSError."""
    for segment in segments:
        start = segment.starts.first_reaching(timestamp_ms)
        if start is None:
            continue
        for header in segment.headers(start):
            if header.max_timestamp_ms >= timestamp_ms:
                return _in_batch(segment, header, timestamp_ms)
    return None


def _in_batch(segment: Segment, header: BatchHeader, timestamp_ms: int) -> tuple[int, int]:
    if header.size_bytes <= OPENED_BYTES:
        batch = os.pread(segment.file().fd, header.size_bytes, header.base_offset - segment.base_offset)
        try:
            for index, record_ms in enumerate(iter_timestamps(batch, max_decompressed_bytes=OPENED_BYTES)):
                if record_ms >= timestamp_ms:
                    return header.base_offset + index, record_ms
        except WireError:
            pass  # The producer's records cannot be read; its batch still has a place in time.
    return header.base_offset, header.max_timestamp_ms
