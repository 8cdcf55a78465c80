"""Reading a segment's bytes again to see whether they are still what was appended: a part at a time, off the log's thread.

Made and reported on the log's thread, run on any. For what a sidecar let recovery pass over: until it is done, readers check what
they send. A segment without a sidecar gets its batch starts from it too.
"""

import os
from collections.abc import Iterator

from ....wire.record_batch import BatchHeader
from ..segment.bad_range import BadRange
from ..segment.batch_starts import BatchStarts
from ..segment.batch_walk import Unresolved, walk
from ..segment.file_region import OpenFile
from ..segment.segment import Segment

PART_BYTES = 4 * 1024 * 1024
PART_BATCHES = 2_000
"""A part ends at whichever comes first: the walk holds the interpreter, and the loop is to wait for no more than milliseconds."""


class SegmentScrub:
    """Goes through a segment as it was when this was made."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.is_finished = False
        self.position = segment.suspect_from if segment.is_indexed else segment.base_offset
        """Verified up to here."""
        self.bad_ranges: list[BadRange] = []
        """What was found, up to here."""
        self.end_offset = segment.base_offset
        self.size_bytes = 0
        self.starts = BatchStarts(segment.starts.interval_bytes)
        self._path = segment.path
        self._to_offset = segment.suspect_to
        self._known = segment.known_bad()
        self._found: Iterator[BatchHeader | BadRange | Unresolved] | None = None
        self._file: OpenFile | None = None

    def run(self) -> None:
        """Go through the next part. From any thread, one at a time. Raises OSError."""
        if self._found is None:
            # Its own descriptor, held to the end: the segment may be deleted meanwhile.
            self._file = OpenFile(self._path, os.O_RDONLY)
            self._found = walk(self._file.fd, self.segment.base_offset, self._to_offset, from_offset=self._begin())
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

    def _begin(self) -> int:
        return self._known.get(self.position, self.position)

    def _whole(self, header: BatchHeader) -> None:
        begin = header.position
        self.position = self.end_offset = header.next_offset
        self.size_bytes = begin - self.segment.base_offset + header.size_bytes
        self.starts.add(begin, header.max_timestamp_ms)
        if self.size_bytes != header.next_offset - self.segment.base_offset:
            self.starts.add_break(begin)
