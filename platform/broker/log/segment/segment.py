"""One segment: append at its end, find the batch for an offset, return regions of whole batches.

Position in the file = offset - base offset. A batch takes max(bytes, records) offsets from its position on; its records have the
last of these. Where records are more than bytes, a hole follows, which is not in the file when nothing comes after it. Knows
nothing of other segments, retention, producers or flush policy. Raises OSError as the system does: the log adds the names.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ....wire.batch.record_batch import HEADER_SIZE, BatchHeader, read_header
from ....wire.errors import CorruptBatch
from ..retention import SegmentFacts
from .bad_range import BadRange
from .batch_index import BatchIndex
from .batch_run import BatchRun
from .batch_walk import fault_at, whole_length
from .file_region import FileRegion, OpenFile
from .segment_file import SegmentFile
from .sidecar import Sidecar
from .sidecar_state import SidecarState
from .unverified_range import ScrubProgress, UnverifiedRange
from .whole_write import write_all

CHECKED_AT_ONCE = 512 * 1024
"""How many unverified bytes one read checks, which bounds its time: 0.3 ms with batches of 10 KB, 3 ms with 250 bytes."""


class Segment:
    """Owned by one thread; its `FileRegion`s may go to others."""

    __slots__ = (
        "__weakref__",
        "_file",
        "base_offset",
        "end_offset",
        "first_append_ms",
        "flushed_offset",
        "index",
        "last_append_ms",
        "sidecar",
        "size_bytes",
        "unverified",
    )

    def __init__(self, path: Path, base_offset: int, *, index_interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        """After the last whole batch and its hole."""
        self.flushed_offset = base_offset
        """What the file holds before this offset is on disk. The log sets it."""
        self.size_bytes = 0
        """Where the last whole batch ends in the file; a hole after it is not in the file."""
        self.first_append_ms = 0
        self.last_append_ms = 0
        """The latest time of an append. A clock that is set back and forward again makes nothing old."""
        self.index = BatchIndex(index_interval_bytes)
        self.unverified = UnverifiedRange(base_offset)
        self.sidecar = SidecarState(base_offset)
        self._file = SegmentFile(path)

    # -- the file ----------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self._file.path

    def create(self, now_ms: int) -> "Segment":
        """Make the file, empty, for appends, and return self. The folder's entry is not flushed."""
        self._file.create(self)
        self.first_append_ms = self.last_append_ms = now_ms
        return self

    def open_for_append(self) -> OpenFile:
        """Return the file opened for reading and writing."""
        return self._file.open_for_append(self)

    def file(self) -> OpenFile:
        """Return the open file. A closed segment's file is opened when it is needed.

        Keep the returned object as long as its descriptor is used: another thread may close the file here (`open_files`).
        """
        handle = self._file.handle
        return handle if handle is not None else self._file.open_for_reading(self)

    @property
    def is_flushed(self) -> bool:
        return self.flushed_offset >= self.end_offset

    def close_file(self) -> None:
        """Close the file; regions that are being sent keep the descriptor. From any thread."""
        self._file.close_file(self)

    def keep_times(self) -> None:
        """Store the time of the last append as the file's mtime."""
        self._file.set_mtime(self.last_append_ms)

    def facts(self) -> SegmentFacts:
        return SegmentFacts(
            base_offset=self.base_offset,
            end_offset=self.end_offset,
            size_bytes=self.size_bytes,
            first_append_ms=self.first_append_ms,
            last_append_ms=self.last_append_ms,
        )

    def move(self, path: Path, base_offset: int) -> None:
        """Begin at `base_offset`, the file having been renamed to `path`. Only for an empty segment."""
        self._file.path = path
        self.base_offset = self.end_offset = self.flushed_offset = base_offset

    # -- opening again -----------------------------------------------------------------------------

    def adopt(self, sidecar: Sidecar) -> None:
        """Take over what a valid sidecar says. Its CRCs are checked later, by readers and by the scrub."""
        self.end_offset = self.sidecar.indexed_to = self.unverified.to_offset = sidecar.indexed_to
        self.size_bytes = sidecar.size_bytes
        self.index.starts = sidecar.starts
        self.first_append_ms = sidecar.first_append_ms
        self.last_append_ms = max(self.last_append_ms, sidecar.last_append_ms)
        self.sidecar.is_durable = sidecar.is_flushed
        for bad in sidecar.bad_ranges:
            self.index.add_bad(bad)

    def leave_unindexed(self, limit_offset: int, size_bytes: int) -> None:
        """Know of a closed segment only how long its file is and where the next segment begins: the scrub finds out the rest.

        Until then every look-up walks, except for a batch's own offset.
        """
        self.end_offset = self.unverified.to_offset = limit_offset
        self.size_bytes = size_bytes
        self.index.leave_incomplete(self.base_offset)

    def verified(self, scrub: ScrubProgress) -> list[BadRange]:
        """Record how far a scrub has come and what it found; return the bad ranges that were not known."""
        index = self.index
        if scrub.is_finished and not index.is_complete:
            self.end_offset, self.size_bytes = scrub.end_offset, scrub.size_bytes
            index.complete(scrub.starts)
        if index.is_complete:
            self.unverified.verified_to(self.unverified.to_offset if scrub.is_finished else scrub.position)
        return [bad for bad in scrub.bad_ranges if index.add_bad(bad)]

    def repaired(self, found: Sequence[BatchHeader], from_offset: int, to_offset: int, walked_to: int) -> None:
        """[from_offset, to_offset) was written again, and its sidecar removed. `found` are the batches up to `walked_to`."""
        index = self.index
        starts = index.starts
        if index.is_complete:
            batches = [(one.position, one.max_timestamp_ms, one.next_offset - one.position != one.size_bytes) for one in found]
            starts = starts.with_part(found[0].position, walked_to, batches)
        index.repaired(from_offset, to_offset, starts)
        last = found[-1]
        if last.next_offset > self.end_offset:
            self.end_offset = last.next_offset
            self.size_bytes = last.position - self.base_offset + last.size_bytes
        self.sidecar.removed(self.base_offset)

    @property
    def needs_sidecar(self) -> bool:
        """Return whether a new sidecar would say more than the present one."""
        if not self.size_bytes or not self.index.is_complete:
            return False
        return self.sidecar.indexed_to < self.end_offset or (self.is_flushed and not self.sidecar.is_durable)

    # -- growing -----------------------------------------------------------------------------------

    def append(self, batch: bytes | bytearray | memoryview, header: BatchHeader, advance: int, now_ms: int) -> None:
        """Write a placed batch at the segment's end. `header` may be the one from before `place`. Hot: one pwrite, no copy.

        When the system writes only a part or nothing, the file is cut back and OSError raised; `CutBackFailed` when cutting back
        failed too.
        """
        file = self._file
        handle = file.handle
        if handle is None or not file.is_writable:
            handle = self.open_for_append()
        offset = self.end_offset
        position = offset - self.base_offset
        size_bytes = header.size_bytes
        try:
            written = os.pwrite(handle.fd, batch, position)
            if written != size_bytes:
                write_all(handle.fd, memoryview(batch)[written:], position + written)
        except OSError as error:
            self._cut_back(handle.fd, error)
            raise
        if not self.size_bytes:
            self.first_append_ms = self.last_append_ms = now_ms
        elif now_ms > self.last_append_ms:
            self.last_append_ms = now_ms
        self.size_bytes = position + size_bytes
        self.end_offset = offset + advance
        starts = self.index.starts
        starts.add(offset, header.max_timestamp_ms)
        if advance != size_bytes:
            starts.add_break(offset)

    def append_run(self, run: BatchRun, now_ms: int) -> None:
        """Write a run of placed batches at the segment's end: all of it or, as `append` does, nothing. Hot: one pwritev a run."""
        file = self._file
        handle = file.handle
        if handle is None or not file.is_writable:
            handle = self.open_for_append()
        assert run.positions[0] == self.end_offset, "a run has its place already: nothing may be appended before it"
        position = self.end_offset - self.base_offset
        end_offset = run.end_offset
        size_bytes = end_offset - self.end_offset
        try:
            written = os.pwritev(handle.fd, run.pieces, position)
            if written != size_bytes:
                write_all(handle.fd, memoryview(b"".join(run.pieces))[written:], position + written)
        except OSError as error:
            self._cut_back(handle.fd, error)
            raise
        self.size_bytes = position + size_bytes
        if now_ms > self.last_append_ms:
            self.last_append_ms = now_ms
        self.end_offset = end_offset
        self.index.starts.add_run(run.positions, run.max_timestamps_ms)

    def add_found(self, header: BatchHeader) -> None:
        """Add a whole batch that recovery found next."""
        position = header.position
        self.index.starts.add(position, header.max_timestamp_ms)
        self.size_bytes = position - self.base_offset + header.size_bytes
        self.end_offset = header.next_offset
        if self.end_offset - position != header.size_bytes:
            self.index.starts.add_break(position)

    def _cut_back(self, fd: int, cause: OSError) -> None:
        try:
            os.ftruncate(fd, self.size_bytes)
            self.keep_times()
        except OSError as error:
            raise CutBackFailed(f"{cause.strerror or cause}, and then cutting back failed: {error.strerror or error}") from error

    # -- reading -----------------------------------------------------------------------------------

    def locate(self, offset: int) -> int | None:
        """Return where the batch starts that answers a fetch at `offset`, None when this segment has no such batch.

        A batch answers every offset from its position to the next batch's position. In front of a bad range that is the batch
        behind the range.
        """
        index = self.index
        if offset >= self.end_offset or not len(index.starts):
            return None
        if offset in index.reader_offsets or (not index.is_complete and offset > self.base_offset and self._is_whole(offset)):
            start = offset
        else:
            start = index.starts.last_at_or_before(offset)
        bad_ends = index.bad_ends
        while True:
            while start in bad_ends:
                start = bad_ends[start]
            if start >= offset:
                break
            header = self._header_at(start)
            if header is not None:
                if offset < header.next_offset:
                    return start
                start = header.next_offset
        return start if start < self.end_offset else None

    def region(self, offset: int, max_bytes: int) -> FileRegion | None:
        """Return the bytes that `locate(offset)` and then `read` would look at, not cut to batches. Reads nothing. Hot."""
        index = self.index
        if offset >= self.end_offset or not len(index.starts):
            return None
        start = offset if offset in index.reader_offsets else index.starts.last_at_or_before(offset)
        position = index.bad_ends.get(start, start) - self.base_offset
        end = min(self.size_bytes, offset - self.base_offset + max_bytes)
        return FileRegion(self.file(), position, end - position) if end > position else None

    def read(self, start: int, max_bytes: int, up_to_offset: int) -> FileRegion | None:
        """Return whole batches from the batch start `start` on, none beyond `up_to_offset`.

        At most `max_bytes`, but at least one batch. The region ends at a hole and before a bad range, and may be shorter than it
        could be. None when not even the first batch may be read. Raises OSError.
        """
        index = self.index
        limit = min(up_to_offset, self.end_offset)
        reach = start + max_bytes
        broken_from = index.starts.first_break(start)
        if broken_from is None and limit == self.end_offset and limit <= reach:
            index.remember_reader(limit)
            return self._checked_region(start, limit)
        # No hole or bad range before `broken_from`: any known batch start up to it is a clean end, and no file is read.
        end = index.starts.last_at_or_before(min(limit, reach) if broken_from is None else min(limit, reach, broken_from))
        if end <= start:
            return self._read_by_walk(start, reach, limit)
        index.remember_reader(end)
        return self._checked_region(start, end)

    def read_on(self, offset: int, max_bytes: int, up_to_offset: int) -> FileRegion | None:
        """Return what `read` would, for a reader that continues where an earlier region ended; None when the file must be read.

        Hot. Always the same answer as the general way: tests compare them. Raises OSError when the file cannot be opened.
        """
        index = self.index
        starts = index.starts
        if offset not in index.reader_offsets or offset in index.bad_ends or starts.has_breaks:
            return None
        end_offset, reach = self.end_offset, offset + max_bytes
        limit = up_to_offset if up_to_offset < end_offset else end_offset
        end = limit if limit == end_offset <= reach else starts.last_at_or_before(min(limit, reach))
        unverified = self.unverified
        if end <= offset or (offset < unverified.to_offset and end > unverified.from_offset):
            return None
        index.remember_reader(end)
        return FileRegion(self.file(), offset - self.base_offset, end - offset)

    def header_at(self, offset: int) -> BatchHeader | None:
        """Return the header of the batch that starts exactly at `offset`, None when none does."""
        if self.locate(offset) != offset:
            return None
        if offset in self.unverified and (bad := self._bad_at(offset)) is not None:
            self.index.add_bad(bad)
        return self._header_at(offset)

    def headers(self, start: int) -> Iterator[BatchHeader]:
        """Yield headers from the batch start `start` on, without those in bad ranges."""
        while start < self.end_offset:
            header = self._header_at(start)
            if header is not None:
                yield header
                start = header.next_offset
            start = self.index.after_bad(start)

    def _read_by_walk(self, start: int, reach: int, limit: int) -> FileRegion | None:
        next_entry = self.index.starts.first_after(start) or self.end_offset
        end = next_offset = start
        for header in self.headers(start):
            if header.position != end or header.next_offset > limit or (end > start and end + header.size_bytes > reach):
                break
            end, next_offset = end + header.size_bytes, header.next_offset
            if end != next_offset or end >= next_entry:
                break
        if end == start:
            return None
        self.index.remember_reader(next_offset)
        return self._checked_region(start, end)

    def _checked_region(self, start: int, end: int) -> FileRegion | None:
        """Return the region, cut to what is whole where it is unverified; None when nothing of it is."""
        unverified = self.unverified
        if start < unverified.to_offset and end > unverified.from_offset:
            end = self._checked(start, end)
            if end <= start:
                return None
        return FileRegion(self.file(), start - self.base_offset, end - start)

    def _header_at(self, offset: int) -> BatchHeader | None:
        """Return the header at the start of a known batch. None when it is damaged; its range is bad from then on."""
        index = self.index
        if offset in index.bad_ends:
            return None
        try:
            file = self.file()
            header = read_header(os.pread(file.fd, HEADER_SIZE, offset - self.base_offset))
            if header.position == offset and header.is_dense and header.next_offset <= self.end_offset:
                return header
        except CorruptBatch:
            pass
        limit = index.starts.first_after(offset) or self.end_offset
        index.add_bad(self._bad_at(offset) or BadRange(offset, limit, f"the batch at offset {offset} ends where it did not"))
        return None

    def _checked(self, start: int, end: int) -> int:
        """Return up to where the unverified bytes from the batch start `start` on are whole batches; `start` when none is.

        Reads at most `CHECKED_AT_ONCE` bytes or one batch, and returns at most `end`.
        """
        upto = min(end, start + CHECKED_AT_ONCE)
        file = self.file()
        data = memoryview(os.pread(file.fd, upto - start, start - self.base_offset))
        checked = start + whole_length(data, start)
        if checked == start:
            bad = self._bad_at(start)
            header = self._header_at(start) if bad is None else None
            if bad is not None:
                self.index.add_bad(bad)
            if header is None:
                return start
            checked = start + header.size_bytes
        if start <= self.unverified.from_offset and self.index.is_complete:
            self.unverified.verified_to(checked)
        return checked

    def _bad_at(self, offset: int) -> BadRange | None:
        """Return the bad range that begins with the batch at `offset`, None when the batch is whole."""
        limit = self.index.starts.first_after(offset) or self.end_offset
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
