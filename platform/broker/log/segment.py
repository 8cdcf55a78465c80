"""One segment file: append at its end, find the batch for an offset, cut slices of whole batches.

Position in the file = offset - base offset. A batch takes max(bytes, records) offsets; where that is more than its bytes, a hole
follows which is not in the file when it is the last thing. Knows nothing of other segments, retention, producers or flush policy.
Raises OSError as the system does: the log gives it a name.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from ...wire.errors import CorruptBatch
from ...wire.record_batch import HEADER_SIZE, BatchHeader, advance_of, read_header
from .bad_range import BadRange
from .batch_starts import BatchStarts
from .file_slice import FileSlice, OpenFile
from .retention import SegmentFacts

SUFFIX = ".log"
DELETED_SUFFIX = ".log.deleted"
_READERS = 64
"""Ends of slices that are remembered as batch starts."""


def file_name(base_offset: int) -> str:
    """Return `00000000000000000042.log` for 42."""
    return f"{base_offset:020d}{SUFFIX}"


def base_offset_of(name: str) -> int | None:
    """Return the base offset that a segment's file name says, None when it is no segment's."""
    digits = name.removesuffix(SUFFIX)
    return int(digits) if name.endswith(SUFFIX) and len(digits) == 20 and digits.isascii() and digits.isdigit() else None


class Segment:
    """A segment and what is known of it in memory. Owned by one thread; its `FileSlice`s may go to others."""

    __slots__ = (
        "_bad_from",
        "_file",
        "_is_writable",
        "_read_to",
        "bad_ranges",
        "base_offset",
        "end_offset",
        "first_append_ms",
        "flushed_offset",
        "last_append_ms",
        "path",
        "size_bytes",
        "starts",
    )

    def __init__(self, path: Path, base_offset: int, *, index_interval_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.end_offset = base_offset
        """After the last whole batch and its hole."""
        self.flushed_offset = base_offset
        """What the file holds before it is on disk. The log keeps it."""
        self.size_bytes = 0
        """Where the last whole batch ends in the file; a hole after it is not in there."""
        self.first_append_ms = 0
        self.last_append_ms = 0
        self.bad_ranges: list[BadRange] = []
        self.starts = BatchStarts(index_interval_bytes)
        self._bad_from: dict[int, int] = {}
        self._read_to: dict[int, None] = {}
        self._file: OpenFile | None = None
        self._is_writable = False

    # -- the file ----------------------------------------------------------------------------------

    def create(self, now_ms: int) -> "Segment":
        """Make the file, empty, for appends, and return self. The folder's entry is not flushed."""
        self._file = OpenFile(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._is_writable = True
        self.first_append_ms = self.last_append_ms = now_ms
        return self

    def open_for_append(self) -> OpenFile:
        """Return the file opened for reading and writing."""
        if self._file is None or not self._is_writable:
            self._file = OpenFile(self.path, os.O_RDWR)
            self._is_writable = True
        return self._file

    def file(self) -> OpenFile:
        """Return the open file; a closed segment's is opened when it is needed."""
        if self._file is None:
            self._file = OpenFile(self.path, os.O_RDONLY)
            self._is_writable = False
        return self._file

    @property
    def is_flushed(self) -> bool:
        return self.flushed_offset >= self.end_offset

    def let_go(self) -> None:
        """Hold the file open no longer; slices on their way keep it."""
        self._file = None
        self._is_writable = False

    def keep_times(self) -> None:
        """Put the time of the last append into the file's mtime, where a restart, `cp -p` and `rsync -a` keep it."""
        os.utime(self.path, ns=(self.last_append_ms * 1_000_000, self.last_append_ms * 1_000_000))

    def facts(self) -> SegmentFacts:
        return SegmentFacts(
            base_offset=self.base_offset,
            end_offset=self.end_offset,
            size_bytes=self.size_bytes,
            first_append_ms=self.first_append_ms,
            last_append_ms=self.last_append_ms,
        )

    # -- growing -----------------------------------------------------------------------------------

    def append(self, batch: bytes | bytearray | memoryview, header: BatchHeader, offset: int, advance: int, now_ms: int) -> None:
        """Write a placed batch at `offset`, the segment's end. Hot: one pwrite, no copy.

        When the system takes only a part or none of it, the file is cut back and OSError raised; `CutBackFailed` when that failed
        too.
        """
        file = self._file
        if file is None or not self._is_writable:
            file = self.open_for_append()
        position = offset - self.base_offset
        size_bytes = header.size_bytes
        try:
            written = os.pwrite(file.fd, batch, position)
            if written != size_bytes:
                _write_rest(file.fd, batch, position, written)
        except OSError as error:
            self._cut_back(file.fd, error)
            raise
        if not self.size_bytes:
            self.first_append_ms = now_ms
        self.size_bytes = position + size_bytes
        self.last_append_ms = now_ms
        self.end_offset = offset + advance
        self.starts.add(offset, header.max_timestamp_ms)
        if advance != size_bytes:
            self.starts.add_break(offset)

    def found(self, header: BatchHeader) -> None:
        """Take note of a whole batch that recovery found next."""
        offset, next_offset = header.base_offset, header.next_offset
        self.starts.add(offset, header.max_timestamp_ms)
        self.size_bytes = offset - self.base_offset + header.size_bytes
        self.end_offset = next_offset
        if next_offset - offset != header.size_bytes:
            self.starts.add_break(offset)

    def found_bad(self, bad: BadRange) -> None:
        """Take note of a range that is never to be served."""
        self.bad_ranges.append(bad)
        self._bad_from[bad.from_offset] = bad.to_offset
        self.starts.add_break(bad.from_offset)

    def _cut_back(self, fd: int, cause: OSError) -> None:
        try:
            os.ftruncate(fd, self.size_bytes)
            self.keep_times()
        except OSError as error:
            raise CutBackFailed(f"{cause.strerror or cause}, and then cutting back failed: {error.strerror or error}") from error

    # -- reading -----------------------------------------------------------------------------------

    def locate(self, offset: int) -> int | None:
        """Return where the batch starts that answers a fetch at `offset`, None when this segment holds none.

        That is the batch whose records' offsets reach it, else the next one: offsets between a batch's last record and its end
        belong to the next batch, as do holes and bad ranges.
        """
        if offset >= self.end_offset or not len(self.starts):
            return None
        start = offset if offset in self._read_to else self.starts.last_at_or_before(offset)
        start = self._bad_from.get(start, start)
        while start < offset:
            header = self._header_at(start)
            if header is None:
                start = self._bad_from[start]
            elif offset < start + header.record_count:
                return start
            else:
                start = header.next_offset
            start = self._bad_from.get(start, start)
        return start if start < self.end_offset else None

    def slice(self, start: int, max_bytes: int, up_to_offset: int) -> FileSlice | None:
        """Return whole batches from `start`, a batch's, on: at most `max_bytes`, but at least one; none beyond `up_to_offset`.

        Ends at a hole and before a bad range. May be shorter than could be. None when not even the first batch may be shown.
        Raises OSError.
        """
        limit = min(up_to_offset, self.end_offset)
        reach = start + max_bytes
        broken_from = self.starts.first_break(start)
        if broken_from is None and limit == self.end_offset and limit <= reach:
            self._note_read_to(limit)
            return self._cut(start, limit)
        # No hole or bad range before `broken_from`: any known batch start up to it is a clean end, and no file is read.
        end = self.starts.last_at_or_before(min(limit, reach) if broken_from is None else min(limit, reach, broken_from))
        return self._cut(start, end) if end > start else self._slice_by_walk(start, reach, limit)

    def header_at(self, offset: int) -> BatchHeader | None:
        """Return the header of the batch that starts exactly at `offset`, None when none does."""
        if self.locate(offset) != offset:
            return None
        return self._header_at(offset)

    def headers(self, start: int) -> Iterator[BatchHeader]:
        """Yield headers from the batch start `start` on, bad ranges left out."""
        while start < self.end_offset:
            header = self._header_at(start)
            if header is not None:
                yield header
                start = header.next_offset
            start = self._bad_from.get(start, start)

    def _slice_by_walk(self, start: int, reach: int, limit: int) -> FileSlice | None:
        stretch_end = self.starts.first_after(start) or self.end_offset
        end = next_offset = start
        for header in self.headers(start):
            if header.base_offset != end or header.next_offset > limit or (end > start and end + header.size_bytes > reach):
                break
            end, next_offset = end + header.size_bytes, header.next_offset
            if end != next_offset or end >= stretch_end:
                break
        if end == start:
            return None
        self._note_read_to(next_offset)
        return self._cut(start, end)

    def _note_read_to(self, next_offset: int) -> None:
        """Remember where a reader will ask next, which is where a batch starts, or will: it saves the walk to there."""
        read_to = self._read_to
        if next_offset not in read_to:
            if len(read_to) >= _READERS:
                del read_to[next(iter(read_to))]
            read_to[next_offset] = None

    def _cut(self, start: int, end: int) -> FileSlice:
        return FileSlice(self.file(), start - self.base_offset, end - start)

    def _header_at(self, offset: int) -> BatchHeader | None:
        """Return the header where a whole batch was; None when there is none any more, the stretch being bad then."""
        if offset in self._bad_from:
            return None
        try:
            header = read_header(os.pread(self.file().fd, HEADER_SIZE, offset - self.base_offset))
            advance = advance_of(header.size_bytes, header.record_count)
            if header.base_offset == offset and header.last_offset_delta == advance - 1 and header.next_offset <= self.end_offset:
                return header
            reason = f"the header at offset {offset} changed after it was written"
        except CorruptBatch as error:
            reason = f"the header at offset {offset} changed after it was written: {error}"
        self.found_bad(BadRange(offset, self.starts.first_after(offset) or self.end_offset, reason))
        return None


class CutBackFailed(OSError):
    """A failed append could not be undone: memory and file may differ."""


def _write_rest(fd: int, batch: bytes | bytearray | memoryview, position: int, written: int) -> None:
    """Write what a short write left over: the system then says why it took no more."""
    rest = memoryview(batch)[written:]
    while rest:
        count = os.pwrite(fd, rest, position + len(batch) - len(rest))
        if count == 0:
            raise OSError(0, "the file takes no more bytes")
        rest = rest[count:]
