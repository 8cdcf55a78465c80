"""One segment file: append at its end, find the batch for an offset, cut slices of whole batches.

Position in the file = offset - base offset. A batch at a position takes max(bytes, records) offsets from there, the last of them
its records'; where that is more than its bytes, a hole follows which is not in the file when it is the last thing. Knows nothing
of other segments, retention, producers or flush policy. Raises OSError as the system does: the log gives it a name.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ....wire.errors import CorruptBatch
from ....wire.record_batch import HEADER_SIZE, BatchHeader, read_header
from ..producer_state import Snapshot
from ..retention import SegmentFacts
from . import open_files
from .bad_range import BadRange
from .batch_run import BatchRun
from .batch_starts import BatchStarts
from .batch_walk import fault_at, whole_length
from .file_region import FileSlice, OpenFile
from .sidecar import Sidecar
from .whole_write import write_all

SUFFIX = ".log"
DELETED_SUFFIX = ".log.deleted"
LATEST_MS = (1 << 63) - 1
CHECKED_AT_ONCE = 512 * 1024
"""How much of what is not verified a read looks at, so how long it takes: 0.3 ms with batches of 10 KB, 3 ms with 250 bytes."""
_READERS = 64
"""Ends of slices that are remembered as batch starts."""


class Scrubbed(Protocol):
    """How far a scrub has come."""

    is_finished: bool
    position: int
    bad_ranges: list[BadRange]
    starts: BatchStarts
    end_offset: int
    size_bytes: int


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
        "__weakref__",
        "_bad_from",
        "_file",
        "_is_writable",
        "_read_to",
        "bad_ranges",
        "base_offset",
        "closing_producers",
        "described_to",
        "end_offset",
        "first_append_ms",
        "flushed_offset",
        "is_described_for_ever",
        "is_indexed",
        "last_append_ms",
        "path",
        "size_bytes",
        "starts",
        "suspect_from",
        "suspect_to",
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
        """The latest time of an append: a clock that went back and comes right again makes nothing old."""
        self.bad_ranges: list[BadRange] = []
        self.starts = BatchStarts(index_interval_bytes)
        self.is_indexed = True
        """Whether `starts` knows the segment. False: its sidecar was lost, and a scrub has not come by yet."""
        self.suspect_from = self.suspect_to = base_offset
        """Between these nobody has looked at the CRCs since this process began: who reads there does."""
        self.described_to = base_offset
        """What lies before it is in a sidecar."""
        self.is_described_for_ever = False
        """Whether that sidecar outlives the system."""
        self.closing_producers: Snapshot | None = None
        """The producers when the segment was closed, until they are in its sidecar."""
        self._bad_from: dict[int, int] = {}
        self._read_to: dict[int, None] = {}
        self._file: OpenFile | None = None
        self._is_writable = False

    # -- the file ----------------------------------------------------------------------------------

    def create(self, now_ms: int) -> "Segment":
        """Make the file, empty, for appends, and return self. The folder's entry is not flushed."""
        self._file = OpenFile(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._is_writable = True
        open_files.shared.opened(self)
        self.first_append_ms = self.last_append_ms = now_ms
        return self

    def open_for_append(self) -> OpenFile:
        """Return the file opened for reading and writing."""
        file = self._file
        if file is None or not self._is_writable:
            file = self._file = OpenFile(self.path, os.O_RDWR)
            self._is_writable = True
            open_files.shared.opened(self)
        return file

    def file(self) -> OpenFile:
        """Return the open file; a closed segment's is opened when it is needed.

        To be held as long as its descriptor is used: another thread may let it go here (`open_files`).
        """
        file = self._file
        if file is None:
            self._is_writable = False
            file = self._file = OpenFile(self.path, os.O_RDONLY)
            open_files.shared.opened(self)
        return file

    @property
    def is_flushed(self) -> bool:
        return self.flushed_offset >= self.end_offset

    def let_go(self) -> None:
        """Hold the file open no longer; slices on their way keep it. From any thread."""
        self._file = None
        open_files.shared.closed(self)

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

    # -- opening again -----------------------------------------------------------------------------

    def adopt(self, sidecar: Sidecar) -> None:
        """Take over what a sidecar that is to be believed says. CRCs are left to who reads there, and to the scrub."""
        self.end_offset = self.described_to = self.suspect_to = sidecar.described_to
        self.size_bytes = sidecar.size_bytes
        self.starts = sidecar.starts
        self.first_append_ms = sidecar.first_append_ms
        self.last_append_ms = max(self.last_append_ms, sidecar.last_append_ms)
        self.is_described_for_ever = sidecar.is_flushed
        for bad in sidecar.bad_ranges:
            self.found_bad(bad)

    def leave_unindexed(self, limit_offset: int, size_bytes: int) -> None:
        """Know of a closed segment only how long its file is and where the next one begins: the scrub finds out the rest.

        Every look-up in it walks, unless the reader asks for a batch's own offset.
        """
        self.is_indexed = False
        self.end_offset = self.suspect_to = limit_offset
        self.size_bytes = size_bytes
        self.starts.add(self.base_offset, LATEST_MS)
        self.starts.add_break(self.base_offset)

    def verified(self, scrub: "Scrubbed") -> list[BadRange]:
        """Take note of how far a scrub has come, and of what it found; return what was not known to be bad."""
        if scrub.is_finished and not self.is_indexed:
            self.starts, self.end_offset, self.size_bytes = scrub.starts, scrub.end_offset, scrub.size_bytes
            self.is_indexed = True
            self._read_to.clear()
        if self.is_indexed:
            self.suspect_from = max(self.suspect_from, self.suspect_to if scrub.is_finished else scrub.position)
        return [bad for bad in scrub.bad_ranges if self.found_bad(bad)]

    def described(self, to_offset: int, *, is_flushed: bool) -> None:
        """Take note that a sidecar was written."""
        if to_offset >= self.described_to:
            self.described_to, self.is_described_for_ever = to_offset, is_flushed

    @property
    def needs_sidecar(self) -> bool:
        """Return whether there is more to be said than its sidecar says."""
        if not self.size_bytes or not self.is_indexed:
            return False
        return self.described_to < self.end_offset or (self.is_flushed and not self.is_described_for_ever)

    # -- growing -----------------------------------------------------------------------------------

    def append(self, batch: bytes | bytearray | memoryview, header: BatchHeader, advance: int, now_ms: int) -> None:
        """Write a placed batch at the segment's end; `header` may be as it was before. Hot: one pwrite, no copy.

        When the system takes only a part or none of it, the file is cut back and OSError raised; `CutBackFailed` when that failed
        too.
        """
        file = self._file
        if file is None or not self._is_writable:
            file = self.open_for_append()
        offset = self.end_offset
        position = offset - self.base_offset
        size_bytes = header.size_bytes
        try:
            written = os.pwrite(file.fd, batch, position)
            if written != size_bytes:
                write_all(file.fd, memoryview(batch)[written:], position + written)
        except OSError as error:
            self._cut_back(file.fd, error)
            raise
        if not self.size_bytes:
            self.first_append_ms = self.last_append_ms = now_ms
        elif now_ms > self.last_append_ms:
            self.last_append_ms = now_ms
        self.size_bytes = position + size_bytes
        self.end_offset = offset + advance
        self.starts.add(offset, header.max_timestamp_ms)
        if advance != size_bytes:
            self.starts.add_break(offset)

    def append_run(self, run: BatchRun, now_ms: int) -> None:
        """Write a run of placed batches at the segment's end, all of it or, as `append` does, none. Hot: one pwritev a run."""
        file = self._file
        if file is None or not self._is_writable:
            file = self.open_for_append()
        assert run.positions[0] == self.end_offset, "a run has its place already: nothing may be appended before it"
        position = self.end_offset - self.base_offset
        end_offset = run.end_offset
        size_bytes = end_offset - self.end_offset
        try:
            written = os.pwritev(file.fd, run.pieces, position)
            if written != size_bytes:
                write_all(file.fd, memoryview(b"".join(run.pieces))[written:], position + written)
        except OSError as error:
            self._cut_back(file.fd, error)
            raise
        self.size_bytes = position + size_bytes
        if now_ms > self.last_append_ms:
            self.last_append_ms = now_ms
        self.end_offset = end_offset
        self.starts.add_run(run.positions, run.max_timestamps_ms)

    def found(self, header: BatchHeader) -> None:
        """Take note of a whole batch that recovery found next."""
        position = header.position
        self.starts.add(position, header.max_timestamp_ms)
        self.size_bytes = position - self.base_offset + header.size_bytes
        self.end_offset = header.next_offset
        if self.end_offset - position != header.size_bytes:
            self.starts.add_break(position)

    def found_bad(self, bad: BadRange) -> bool:
        """Take note of a range that is never to be served; return False when that was known."""
        from_offset, to_offset, _ = bad
        if any(known.from_offset <= from_offset and to_offset <= known.to_offset for known in self.bad_ranges):
            return False
        inside = [known for known in self.bad_ranges if from_offset <= known.from_offset and known.to_offset <= to_offset]
        self.bad_ranges = sorted([*(known for known in self.bad_ranges if known not in inside), bad])
        # A remembered start inside of it must not lead in, so each leads out.
        for start in (from_offset, *self.starts.between(from_offset, to_offset)):
            self._bad_from[start] = to_offset
            self.starts.add_break(start)
        for offset in [offset for offset in self._read_to if from_offset < offset < to_offset]:
            del self._read_to[offset]
        return True

    def known_bad(self) -> dict[int, int]:
        """Return where a walk that comes upon a bad range goes on: a copy."""
        return dict(self._bad_from)

    def _cut_back(self, fd: int, cause: OSError) -> None:
        try:
            os.ftruncate(fd, self.size_bytes)
            self.keep_times()
        except OSError as error:
            raise CutBackFailed(f"{cause.strerror or cause}, and then cutting back failed: {error.strerror or error}") from error

    # -- reading -----------------------------------------------------------------------------------

    def locate(self, offset: int) -> int | None:
        """Return where the batch starts that answers a fetch at `offset`, None when this segment holds none.

        That is the one whose offsets it is among, from its position to the next one's; behind a bad range, the next one.
        """
        if offset >= self.end_offset or not len(self.starts):
            return None
        if offset in self._read_to or (not self.is_indexed and offset > self.base_offset and self._is_whole(offset)):
            start = offset
        else:
            start = self.starts.last_at_or_before(offset)
        bad_from = self._bad_from
        while True:
            while start in bad_from:
                start = bad_from[start]
            if start >= offset:
                break
            header = self._header_at(start)
            if header is not None:
                if offset < header.next_offset:
                    return start
                start = header.next_offset
        return start if start < self.end_offset else None

    def stretch(self, offset: int, max_bytes: int) -> FileSlice | None:
        """Return what `locate(offset)` and then `slice` of `max_bytes` would look at, not cut to batches; reads nothing. Hot."""
        if offset >= self.end_offset or not len(self.starts):
            return None
        start = offset if offset in self._read_to else self.starts.last_at_or_before(offset)
        position = self._bad_from.get(start, start) - self.base_offset
        end = min(self.size_bytes, offset - self.base_offset + max_bytes)
        return FileSlice(self.file(), position, end - position) if end > position else None

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
        if end <= start:
            return self._slice_by_walk(start, reach, limit)
        self._note_read_to(end)
        return self._cut(start, end)

    def slice_on(self, offset: int, max_bytes: int, up_to_offset: int) -> FileSlice | None:
        """Return what `slice` would, for a reader who asks where an earlier slice ended; None when only the file can tell. Hot.

        Never other than the general way: tests hold one against the other. Raises OSError when the file cannot be opened.
        """
        starts = self.starts
        if offset not in self._read_to or offset in self._bad_from or starts.has_breaks:
            return None
        end_offset, reach = self.end_offset, offset + max_bytes
        limit = up_to_offset if up_to_offset < end_offset else end_offset
        end = limit if limit == end_offset <= reach else starts.last_at_or_before(min(limit, reach))
        if end <= offset or (offset < self.suspect_to and end > self.suspect_from):
            return None
        self._note_read_to(end)
        return FileSlice(self.file(), offset - self.base_offset, end - offset)

    def header_at(self, offset: int) -> BatchHeader | None:
        """Return the header of the batch that starts exactly at `offset`, None when none does."""
        if self.locate(offset) != offset:
            return None
        if self.suspect_from <= offset < self.suspect_to and (bad := self._bad_at(offset)) is not None:
            self.found_bad(bad)
        return self._header_at(offset)

    def headers(self, start: int) -> Iterator[BatchHeader]:
        """Yield headers from the batch start `start` on, bad ranges left out."""
        while start < self.end_offset:
            header = self._header_at(start)
            if header is not None:
                yield header
                start = header.next_offset
            while start in self._bad_from:
                start = self._bad_from[start]

    def _slice_by_walk(self, start: int, reach: int, limit: int) -> FileSlice | None:
        stretch_end = self.starts.first_after(start) or self.end_offset
        end = next_offset = start
        for header in self.headers(start):
            if header.position != end or header.next_offset > limit or (end > start and end + header.size_bytes > reach):
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

    def _cut(self, start: int, end: int) -> FileSlice | None:
        if start < self.suspect_to and end > self.suspect_from:
            end = self._checked(start, end)
            if end <= start:
                return None
        return FileSlice(self.file(), start - self.base_offset, end - start)

    def _header_at(self, offset: int) -> BatchHeader | None:
        """Return the header where a whole batch was; None when there is none any more, the stretch being bad then."""
        if offset in self._bad_from:
            return None
        try:
            file = self.file()
            header = read_header(os.pread(file.fd, HEADER_SIZE, offset - self.base_offset))
            if header.position == offset and header.is_dense and header.next_offset <= self.end_offset:
                return header
        except CorruptBatch:
            pass
        limit = self.starts.first_after(offset) or self.end_offset
        self.found_bad(self._bad_at(offset) or BadRange(offset, limit, f"the batch at offset {offset} ends where it did not"))
        return None

    def _checked(self, start: int, end: int) -> int:
        """Return how far from `start`, a batch's, on whole batches can be sent of what lies before `end`: `start` when none can.

        For what nobody has looked at since the start; reads it, at most `CHECKED_AT_ONCE` or one batch.
        """
        upto = min(end, start + CHECKED_AT_ONCE)
        file = self.file()
        data = memoryview(os.pread(file.fd, upto - start, start - self.base_offset))
        checked = start + whole_length(data, start)
        if checked == start:
            bad = self._bad_at(start)
            header = self._header_at(start) if bad is None else None
            if bad is not None:
                self.found_bad(bad)
            if header is None:
                return start
            checked = start + header.size_bytes
        if start <= self.suspect_from and self.is_indexed:
            self.suspect_from = max(self.suspect_from, checked)
        return checked

    def _bad_at(self, offset: int) -> BadRange | None:
        """Return the bad range that begins with the batch at `offset`, None when that is whole."""
        limit = self.starts.first_after(offset) or self.end_offset
        file = self.file()
        fault = fault_at(file.fd, self.base_offset, offset, limit)
        if fault is None:
            return None
        reason, resume = fault
        return BadRange(offset, limit if resume is None else resume, f"{reason}: it changed after it was written")

    def _is_whole(self, offset: int) -> bool:
        file = self.file()
        return fault_at(file.fd, self.base_offset, offset, offset) is None


class CutBackFailed(OSError):
    """A failed append could not be undone: memory and file may differ."""
