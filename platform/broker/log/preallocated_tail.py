"""Zeros written ahead of a segment's end, so that a small flush finds its space on the disk already.

Why: a flush that makes the file longer waits for two more writes, one after the other, those of the file system's journal (ext4:
360 µs where one into space that was written before takes 190). Zeros begin no batch, so a start, `headrace log check` and `dump`
take them for the end. They go when the segment is closed; a kill leaves them, and the next start cuts them off.

Large flushes gain nothing and would be written twice: the zeros must have served some flushes before there are more of them.
Raises nothing: without room for them a flush is only slower.
"""

import contextlib
import os

from .segment.segment import Segment

SPARE_BYTES = 256 * 1024
"""The most that stands behind the end. Each takes one longer flush."""
LEAST_FLUSHES = 8
"""Flushes between one writing of zeros and the next, so that their bytes are a small part of what flushes cost."""
_ZEROS = bytes(SPARE_BYTES)


class Spare:
    """What is written ahead of a log's active segment. On the log's thread."""

    __slots__ = ("_flush_count", "_to_offset")

    def __init__(self) -> None:
        self._to_offset = 0
        self._flush_count = 0

    def before_flush(self, segment: Segment) -> None:
        """See that the flush after this one finds its space, if it is as large as this one."""
        self._flush_count += 1
        end_offset = segment.end_offset
        if self._flush_count <= LEAST_FLUSHES or self._to_offset - end_offset >= end_offset - segment.flushed_offset:
            return
        self._flush_count = 0
        begin = max(end_offset, self._to_offset)
        length = min(end_offset + SPARE_BYTES - begin, SPARE_BYTES)
        with contextlib.suppress(OSError):
            file = segment.open_for_append()
            self._to_offset = begin + os.pwrite(file.fd, _ZEROS[:length], begin - segment.base_offset)

    def give_up(self, segment: Segment) -> None:
        """Cut the segment's file back to what is in it: it is closed. Zeros that cannot be cut stay until the next start."""
        if self._to_offset > segment.base_offset + segment.size_bytes:
            with contextlib.suppress(OSError):
                os.ftruncate(segment.open_for_append().fd, segment.size_bytes)
        self._to_offset = self._flush_count = 0


def is_unwritten(fd: int, position: int) -> bool:
    """Return whether nothing but zeros comes from `position` on: no batch was ever whole there. Raises OSError."""
    while part := os.pread(fd, SPARE_BYTES, position):
        if part.count(0) != len(part):
            return False
        position += len(part)
    return True
