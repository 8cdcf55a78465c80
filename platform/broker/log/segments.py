"""All segments of a log in order: find the one that holds an offset, add one at the end, remove the oldest, keep few files open.

Does not decide when. Segments ascend and do not overlap; there is always at least one, and the last is the active one. Raises
OSError as the system does.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .segment.bad_range import BadRange
from .segment.segment import Segment
from .segment.segment_name import DELETED_SUFFIX, file_name


class DeletedSegment(NamedTuple):
    """A segment that is no longer part of the log. Its file was renamed to `path` and must still be erased."""

    base_offset: int
    end_offset: int
    size_bytes: int
    last_append_ms: int
    path: Path


class Segments:
    """Never empty. At most one closed segment is kept open for reading, so descriptors do not grow with the log."""

    __slots__ = ("_bases", "_folder", "_row", "_warm", "active", "start_offset", "unindexed")

    def __init__(self, folder: Path, row: list[Segment], start_offset: int) -> None:
        self._folder = folder
        self._row = row
        self._bases = [segment.base_offset for segment in row]
        self._warm: Segment | None = None
        self.unindexed = {segment for segment in row[:-1] if segment.size_bytes and not segment.sidecar.is_durable}
        """Closed segments without a sidecar that covers all of them and is valid after a power cut."""
        self.active = row[-1]
        """The last segment. An attribute, because each append and each fetch reads it."""
        self.start_offset = start_offset
        """Where the log starts: at the first segment's base, or behind it."""

    def __len__(self) -> int:
        return len(self._row)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._row)

    def holding(self, offset: int) -> Segment:
        """Return the segment that `offset` falls into. `offset` is not before the log start."""
        return self._warmed(self._row[bisect_right(self._bases, offset) - 1])

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """Yield the segment that `offset` falls into, and the segments after it. `offset` is not before the log start."""
        for at in range(bisect_right(self._bases, offset) - 1, len(self._row)):
            yield self._warmed(self._row[at])

    def listed_from(self, offset: int) -> Iterator[Segment]:
        """Yield what `from_offset` would now, even when segments are added or deleted between two steps."""
        for segment in self._row[bisect_right(self._bases, offset) - 1 :]:
            yield self._warmed(segment)

    def begin(self, base_offset: int, now_ms: int, *, index_interval_bytes: int) -> Segment:
        """Close the active segment and return the new one at `base_offset`. The folder's entry is not flushed."""
        closed = self.active
        closed.keep_times()
        segment = Segment(self._folder / file_name(base_offset), base_offset, index_interval_bytes=index_interval_bytes).create(
            now_ms
        )
        self._row.append(segment)
        self._bases.append(base_offset)
        self.active = segment
        self.unindexed.add(closed)
        self.close_if_idle(closed)
        return segment

    def take_back(self) -> None:
        """Undo `begin`. Nothing has been appended since."""
        os.unlink(self.active.path)
        self._row.pop()
        self._bases.pop()
        self.active = self._row[-1]
        self.unindexed.discard(self.active)

    def move_active(self, base_offset: int) -> None:
        """Let the active segment, which is empty, begin elsewhere. One rename, so that no crash leaves a wrong log start."""
        active = self.active
        path = self._folder / file_name(base_offset)
        os.rename(active.path, path)
        active.move(path, base_offset)
        self._bases[-1] = base_offset
        if len(self._row) == 1:
            self.start_offset = base_offset

    def drop_first(self) -> DeletedSegment:
        """Remove the oldest segment, which is not the active one, and rename its file. Regions of it stay readable."""
        segment = self._row[0]
        path = self._folder / f"{segment.base_offset:020d}{DELETED_SUFFIX}"
        os.rename(segment.path, path)
        del self._row[0], self._bases[0]
        if self.start_offset < self._bases[0]:
            self.start_offset = self._bases[0]
        if self._warm is segment:
            self._warm = None
        self.unindexed.discard(segment)
        segment.close_file()
        return DeletedSegment(segment.base_offset, segment.end_offset, segment.size_bytes, segment.last_append_ms, path)

    def count_before(self, offset: int) -> int:
        """Return how many of the oldest segments lie wholly before `offset`. The active segment counts, too."""
        count = bisect_right(self._bases, offset)
        return count if count == len(self._row) and self.active.end_offset <= offset else count - 1

    def unflushed(self) -> list[Segment]:
        """Return the segments that are not wholly on disk, in order. They are the last ones."""
        found = []
        for segment in reversed(self._row):
            if segment.is_flushed and segment is not self.active:
                break
            if not segment.is_flushed:
                found.append(segment)
        return found[::-1]

    def close_if_idle(self, segment: Segment) -> None:
        """Close a closed segment's file. An unflushed one stays open: the system reports a failed write only once."""
        if segment is not self.active and segment is not self._warm and segment.is_flushed:
            segment.close_file()

    def close_files(self) -> None:
        """Close all files."""
        self._warm = None
        for segment in self._row:
            segment.close_file()

    @property
    def unindexed_bytes(self) -> int:
        """Return how much the next start would have to walk if the process died now."""
        active = self.active
        of_active, closed = active.end_offset - active.sidecar.indexed_to, self.unindexed
        return of_active + sum(each.end_offset - each.sidecar.indexed_to for each in closed) if closed else of_active

    @property
    def unverified(self) -> list[Segment]:
        """Return the segments that are not wholly verified since the start, those without an index first."""
        unverified = [segment for segment in self._row if segment.unverified]
        return sorted(unverified, key=lambda segment: segment.index.is_complete)

    def _warmed(self, segment: Segment) -> Segment:
        warm = self._warm
        if segment is not warm and segment is not self.active:
            self._warm = segment
            if warm is not None:
                self.close_if_idle(warm)
        return segment

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._row)

    @property
    def bad_ranges(self) -> list[BadRange]:
        return sorted(bad for segment in self._row for bad in segment.index.bad_ranges)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Half-open ranges between segments that hold neither batches nor damage."""
        found = []
        for segment, after in zip(self._row, self._row[1:], strict=False):
            end = max([segment.end_offset, *(bad.to_offset for bad in segment.index.bad_ranges)])
            if end < after.base_offset:
                found.append((end, after.base_offset))
        return found
