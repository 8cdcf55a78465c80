"""Read a segment's bytes again and check that they are what was appended: one part at a time.

For what a start took over from a sidecar without reading it. Until the scrub is finished, readers check what they send. A segment
without a sidecar also gets its batch starts from the scrub.
"""

import os
from collections.abc import Iterator

from ....wire.batch.record_batch import BatchHeader
from ..segment.bad_range import BadRange
from ..segment.batch_starts import BatchStarts
from ..segment.batch_walk import Unresolved, walk
from ..segment.file_region import OpenFile
from ..segment.segment import Segment
from .log_job import LogJob

PART_BYTES = 4 * 1024 * 1024
PART_BATCHES = 2_000
"""A part ends at the first of these two limits: the walk holds the interpreter, and the loop must not wait longer than
milliseconds for it."""


class SegmentScrub:
    """Reads a segment as it was when this object was made. Run it again and again until `is_finished`."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.is_finished = False
        self.position = segment.unverified.from_offset if segment.index.is_complete else segment.base_offset
        """Verified up to here."""
        self.bad_ranges: list[BadRange] = []
        """What was found up to here."""
        self.end_offset = segment.base_offset
        self.size_bytes = 0
        self.starts = BatchStarts(segment.index.starts.interval_bytes)
        self._path = segment.path
        self._to_offset = segment.unverified.to_offset
        self._bad_ends = dict(segment.index.bad_ends)
        self._found: Iterator[BatchHeader | BadRange | Unresolved] | None = None
        self._file: OpenFile | None = None

    def run(self) -> None:
        """Read the next part, on any thread, one part at a time. Raises OSError."""
        if self._found is None:
            # Its own descriptor, held to the end: the segment may be deleted meanwhile.
            self._file = OpenFile(self._path, os.O_RDONLY)
            begin = self._bad_ends.get(self.position, self.position)
            self._found = walk(self._file.fd, self.segment.base_offset, self._to_offset, from_offset=begin)
        stop_at = self.position + PART_BYTES
        for _ in range(PART_BATCHES):
            found = next(self._found, None)
            if found is None:
                self.position = self._to_offset
                self.is_finished = True
                self._file = self._found = None
                return
            if isinstance(found, BatchHeader):
                self._whole(found)
            else:
                to_offset = found.to_offset if isinstance(found, BadRange) else self._to_offset
                self.bad_ranges.append(BadRange(found.from_offset, to_offset, found.reason))
                self.position = to_offset
            if self.position >= stop_at:
                return

    def _whole(self, header: BatchHeader) -> None:
        begin = header.position
        self.position = self.end_offset = header.next_offset
        self.size_bytes = begin - self.segment.base_offset + header.size_bytes
        self.starts.add(begin, header.max_timestamp_ms)
        if self.size_bytes != header.next_offset - self.segment.base_offset:
            self.starts.add_break(begin)


ScrubJob = LogJob[SegmentScrub, list[BadRange]]
