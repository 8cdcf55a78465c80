"""One partition's log: segments in a row, appended to at the end, read anywhere, expiring at the head.

Batches stay as they came but for the twelve header bytes that `wire.place` sets. Owned by one thread; a `FlushJob` and
`FileSlice`s may go to others. Flushes only when told, or when a segment is closed (`LogConfig.flush_on_roll`). Knows no names of
topic settings, no visibility, clock or log lines. Source: the paper's section 3.1, rules of the log.

Invariants: segments ascend and do not overlap; the last one is active, always there, and its end is the log end; an offset below
the log end never changes its bytes; `flushed_offset` never goes back.
"""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TypeVar

from ...wire.record_batch import BatchHeader, place, read_header
from . import folder as folders
from .conditional_append import AlreadyThere, Appended, Refused
from .errors import BatchRefused, FolderFault, LogUnusable, OffsetOutOfRange
from .first_append import FirstAppend
from .jobs.checkpoint_job import CheckpointJob
from .jobs.expire_job import ExpireJob
from .jobs.flush_job import FlushJob
from .jobs.segment_scrub import SegmentScrub
from .jobs.start_job import StartJob
from .log_config import LogConfig
from .log_end import LogEnd
from .log_name import LogName
from .log_start import LogStart, erase_now
from .mirrored_append import MirroredAppend
from .offset_time import Found, first_at_or_after, largest
from .producer_state import ProducerStates
from .recovery import RecoveryReport, recover
from .retention import SegmentFacts
from .segment.bad_range import BadRange
from .segment.batch_run import BatchRun
from .segment.file_region import FileSlice
from .segment.segment import Segment, file_name
from .segments import DeletedSegment, Segments

T = TypeVar("T")


class PartitionLog:
    """Made by `open`."""

    __slots__ = ("_end", "_mirrored", "_name", "_scrub", "_segments", "_start", "_unreadable", "producers", "recovery")

    def __init__(
        self, name: LogName, *, segments: Segments, end: LogEnd, producers: ProducerStates, recovery: RecoveryReport
    ) -> None:
        self.producers = producers
        """Ask `producers.judge(header)` before `append`; appended batches are recorded by the log."""
        self.recovery = recovery
        self._name = name
        self._segments = segments
        self._end = end
        self._start = LogStart(name, segments, end)
        self._mirrored = MirroredAppend(name, segments, end)
        self._scrub: SegmentScrub | None = None
        self._unreadable: set[Segment] = set()

    @classmethod
    def open(cls, folder: Path, *, topic: str, partition: int, config: LogConfig, now_ms: int) -> "PartitionLog":
        """Return the log in `folder`, made where it is missing, recovered where a crash left it; what was found is in `recovery`.

        Reads what no sidecar tells of; may run on another thread than the one that uses it later. Raises `FolderFault`,
        `OldFormat`.
        """
        name = LogName(topic, partition, folder)
        producers = ProducerStates(config.producer_capacity)
        try:
            is_new = folders.make(folder, enter=config.flush_at_open)
            found = recover(
                folder, producers=producers, index_interval_bytes=config.index_interval_bytes, flush=config.flush_at_open
            )
            row = found.segments
            start_offset, is_entered = found.start_offset, found.is_flushed
            if not row or row[-1].end_offset < start_offset:
                # No offset is given out twice, even when the files below a noted start were lost.
                first = Segment(folder / file_name(start_offset), start_offset, index_interval_bytes=config.index_interval_bytes)
                row.append(first.create(now_ms))
                if is_entered := config.flush_at_open:
                    folders.sync(folder)
                    if not is_new:
                        folders.sync(folder.parent)  # Who made it may have been killed before it did.
            segments = Segments(folder, row, start_offset)
            while segments.count_before(segments.start_offset) > 0 and len(segments) > 1:
                erase_now(segments.drop_first())  # A crash came between the note and the deletion.
        except OSError as error:
            raise name.fault(error) from error
        end = LogEnd(name, segments, producers, config, is_entered=is_entered)
        return cls(name, segments=segments, end=end, producers=producers, recovery=found.report)

    # -- what there is -----------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        return self._name.topic

    @property
    def partition(self) -> int:
        return self._name.partition

    @property
    def folder(self) -> Path:
        return self._name.folder

    @property
    def config(self) -> LogConfig:
        """May be replaced at any time; `producer_capacity` counts from the next opening."""
        return self._end.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._end.config = config

    @property
    def log_start_offset(self) -> int:
        """Return the first offset that may be read: the first segment's base, or what `advance_start` made of it."""
        return self._segments.start_offset

    @property
    def log_end_offset(self) -> int:
        """Return where the next batch goes."""
        return self._segments.active.end_offset

    @property
    def flushed_offset(self) -> int:
        """Return the offset before which everything is on disk."""
        return self._end.flushed_offset

    @property
    def size_bytes(self) -> int:
        """Return the bytes in the files, holes left out."""
        return self._segments.size_bytes

    @property
    def bad_ranges(self) -> list[BadRange]:
        """Return the ranges that are never served, in order: damage found at opening, and headers found changed since."""
        return self._segments.bad_ranges

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Return the half-open ranges that never held anything here: a mirror's source had lost them to retention."""
        return self._segments.gaps

    @property
    def segments(self) -> list[SegmentFacts]:
        return [segment.facts() for segment in self._segments]

    @property
    def failure(self) -> LogUnusable | None:
        """Return why the log takes no more appends, None while it does."""
        return self._end.failure

    # -- appending ---------------------------------------------------------------------------------

    def append(
        self, batch: bytearray | memoryview, now_ms: int, *, header: BatchHeader | None = None, leader_epoch: int = 0
    ) -> Appended:
        """Put `batch` at the log end and return where that is. Hot: 1.7 µs besides `place` and the write.

        `batch` is writable, holds exactly one batch whose CRC the caller has checked, and is changed in place (`wire.place`); it
        is not kept. `header` saves a second reading. Raises `BatchRefused`; `AppendFailed`, the log then being as it was;
        `LogUnusable`.
        """
        header = self._acceptable(batch, header)
        size_bytes = header.size_bytes
        advance = size_bytes if size_bytes > header.record_count else header.record_count
        segment = self._end.segment_for(advance, size_bytes, now_ms)
        next_offset = segment.end_offset + advance
        place(batch, segment.end_offset, leader_epoch)
        self._end.write(segment, batch, header, advance, now_ms)
        return Appended(next_offset - header.record_count, next_offset)

    def run_room(self, now_ms: int) -> tuple[int, int] | None:
        """Return the log end and the offset that a run of batches may reach from there, None where `append` must be asked."""
        return self._end.run_room(now_ms)

    def append_run(self, run: BatchRun, now_ms: int) -> None:
        """Put placed batches at the log end, all of them or none, in one write. Hot.

        They begin where `run_room` said and keep within it; the caller has checked them as for `append`, placed them, and found
        their sequences to be the next. Raises `AppendFailed`, the log then being as it was; `LogUnusable`.
        """
        self._end.write_run(run, now_ms)

    def append_at(
        self,
        batch: bytearray | memoryview | bytes,
        source_log_start_offset: int,
        now_ms: int,
        *,
        header: BatchHeader | None = None,
        leader_epoch: int = 0,
    ) -> Appended | AlreadyThere | Refused:
        """Put a mirrored batch at its own position, bytes unchanged but for the leader epoch, if that is where it belongs.

        At the log end it is appended; below, the same batch is `AlreadyThere`. A log that never held anything starts at the
        source's start, and one whose source has lost what is missing here to retention jumps (`jumped_from`). All
        else is `Refused`, with the facts. Sequences are recorded, not checked. The caller has checked the CRC. Raises as
        `append`.
        """
        header = self._acceptable(batch, header)
        return self._mirrored.append(batch, header, source_log_start_offset, now_ms, leader_epoch=leader_epoch)

    def _acceptable(self, batch: bytes | bytearray | memoryview, header: BatchHeader | None) -> BatchHeader:
        if self._end.failure is not None:
            raise self._end.failure
        if header is None:
            header = read_header(batch)
        if len(batch) != header.size_bytes or header.record_count < 1:
            raise BatchRefused(
                f"a batch of {header.record_count} records and {header.size_bytes} bytes in a buffer of {len(batch)} has no "
                "place in a log: send one whole batch with at least one record",
                topic=self.topic,
                partition=self.partition,
            )
        return header

    def header_of(self, base_offset: int) -> BatchHeader | None:
        """Return the header of the batch whose first record is at `base_offset`, None when none is any more. Raises
        `FolderFault`.
        """
        if not self.log_start_offset <= base_offset < self.log_end_offset:
            return None
        segment = self._segments.holding(base_offset)
        try:
            position = segment.locate(base_offset)
            header = None if position is None else segment.header_at(position)
        except OSError as error:
            raise self._name.fault(error) from error
        return header if header is not None and header.base_offset == base_offset else None

    # -- expiring ----------------------------------------------------------------------------------

    def expire(
        self, now_ms: int, *, up_to_offset: int | None = None, erase: Callable[[DeletedSegment], None] = erase_now
    ) -> list[DeletedSegment]:
        """Delete the segments whose time has come and return them, oldest first, having waited for the disk on this thread.

        The active segment is closed first when it is among them, so the log end stays, as an empty segment. Readers that hold
        slices read on. Raises `FolderFault`, `AppendFailed`.
        """
        return self._start.expire(now_ms, up_to_offset=up_to_offset, erase=erase)

    def expire_job(self, now_ms: int, *, up_to_offset: int | None = None) -> ExpireJob | None:
        """Return what must be on disk before those segments go, None when none has to: `expire` without waiting here.

        Run it on any thread, then call `expire_done` on the log's own; when it fails nothing need be done. Raises as `expire`.
        """
        return self._start.expire_job(now_ms, up_to_offset=up_to_offset)

    def expire_done(self, job: ExpireJob, *, erase: Callable[[DeletedSegment], None] = erase_now) -> list[DeletedSegment]:
        """Let the segments of `job`, which has run, go; return them, oldest first. `erase` may pass files to another thread.

        Raises `FolderFault`.
        """
        return self._start.expire_done(job, erase=erase)

    def advance_start(
        self, offset: int, now_ms: int, *, erase: Callable[[DeletedSegment], None] = erase_now
    ) -> list[DeletedSegment]:
        """Let the log start at `offset`, which may be in the middle of a segment or a batch; return the segments that went.

        Durable when it returns, having waited on this thread. A start that is there or past is left as it is. Raises
        `OffsetOutOfRange` beyond the log end, `FolderFault`, `LogUnusable`, `AppendFailed`.
        """
        return self._start.advance(offset, now_ms, erase=erase)

    def start_job(self, offset: int, now_ms: int) -> StartJob | None:
        """Return what puts `offset` on disk as the log's start, None when it starts there or later already.

        Run it on any thread, then call `start_done` or `start_failed` on the log's own. Raises as `advance_start`.
        """
        return self._start.start_job(offset, now_ms)

    def start_done(self, job: StartJob, *, erase: Callable[[DeletedSegment], None] = erase_now) -> list[DeletedSegment]:
        """Let the log start where `job`, which has run, says; return the segments that went, as `expire_done` does."""
        return self._start.start_done(job, erase=erase)

    def start_failed(self, job: StartJob, error: OSError) -> LogUnusable | FolderFault:
        """Take note that `job` failed, the log's start being where it was, and return the error to tell."""
        return self._start.start_failed(job, error)

    # -- flushing ----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Return when all that is appended is on disk. Raises `LogUnusable`: after a failed flush nobody knows what is there."""
        self._end.flush()

    def flush_job(self, *, more_follow: bool = False) -> FlushJob | None:
        """Return what puts on disk all that is appended by now, None when all is there.

        Run it on any thread, then call `flush_done` or `flush_failed` on the log's own; several may be under way. `more_follow`:
        such flushes are waited for again and again, so their space is written ahead (`spare`). Raises `FolderFault`.
        """
        return self._end.flush_job(more_follow=more_follow)

    def flush_done(self, job: FlushJob) -> None:
        """Take note that `job` has run."""
        self._end.flush_done(job)

    def flush_failed(self, error: OSError) -> LogUnusable:
        """Take note that a job failed, and return the error that appends get from now on, until the log is opened again."""
        return self._end.flush_failed(error)

    # -- being opened again ------------------------------------------------------------------------

    @property
    def undescribed_bytes(self) -> int:
        """Return how much an opening would have to walk if the process died now. Cheap."""
        return self._segments.undescribed_bytes

    @property
    def needs_sidecars(self) -> bool:
        """Return whether a closed segment waits for its sidecar. Cheap."""
        closed = self._segments.undescribed
        return bool(closed) and any(segment.needs_sidecar for segment in closed)

    @property
    def has_unflushed_segments(self) -> bool:
        """Return whether a closed segment is not on disk. Cheap."""
        return self._end.flushed_offset < self._segments.active.base_offset and len(self._segments) > 1

    def note_job(self) -> FirstAppend | None:
        """Return what notes the age of the active segment, None when that is done.

        Run it on any thread, then call `note_done` on the log's own. Without it a start after a kill takes the age for less.
        """
        return self._end.unnoted

    def note_done(self, job: FirstAppend) -> None:
        """Take note that `job` has run."""
        if self._end.unnoted is job:
            self._end.unnoted = None

    def checkpoint_job(self) -> CheckpointJob | None:
        """Return what writes the sidecars that would make an opening fast now, None when nothing is to be written.

        Run it on any thread, then call `checkpoint_done` on the log's own; when it fails nothing need be done. One at a time.
        Raises `FolderFault`.
        """
        return self._end.checkpoint_job()

    def checkpoint_done(self, job: CheckpointJob) -> None:
        """Take note that `job` has run."""
        self._end.checkpoint_done(job)

    def scrub_job(self) -> SegmentScrub | None:
        """Return what verifies the next part of what opening passed over, None when all is verified.

        Run it on any thread, then call `scrub_done` or `scrub_failed` on the log's own. One at a time.
        """
        if self._scrub is None:
            suspects = [segment for segment in self._segments.suspects if segment not in self._unreadable]
            self._scrub = SegmentScrub(suspects[0]) if suspects else None
        return self._scrub

    def scrub_done(self, job: SegmentScrub) -> list[BadRange]:
        """Take note that a part of `job` has run; return the damage that it has found and that was not known."""
        found = job.segment.verified(job)
        if job.is_finished:
            self._scrub = None
        return found

    def scrub_failed(self, job: SegmentScrub, error: OSError) -> FolderFault:
        """Take note that the segment cannot be read: it is left to its readers. Return the error to tell."""
        self._unreadable.add(job.segment)
        self._scrub = None
        return self._name.fault(error)

    # -- reading -----------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, up_to_offset: int | None = None) -> FileSlice | None:
        """Return whole batches from the one that answers `offset` on, up to `up_to_offset` (None: the log end). None: none. Hot.

        A batch answers every offset from its position up to the next one's. At most `max_bytes`, but at least one
        batch; the slice ends at a hole, a segment's end, a bad range, or earlier. It stays readable while it is held, whatever
        becomes of the segment. Raises `OffsetOutOfRange`, `FolderFault`.
        """
        segments = self._segments
        log_end_offset = segments.active.end_offset
        if offset > log_end_offset or offset < segments.start_offset:
            raise self._out_of_range(offset)
        if up_to_offset is None or up_to_offset > log_end_offset:
            up_to_offset = log_end_offset
        if offset >= up_to_offset:
            return None
        try:
            for segment in segments.from_offset(offset):
                while (start := segment.locate(offset)) is not None:
                    found = segment.slice(start, max_bytes, up_to_offset) if start < up_to_offset else None
                    # Nothing to show, unless looking has just found damage here: then what comes behind it may be shown.
                    if found is not None or segment.locate(offset) == start:
                        return found
        except OSError as error:
            raise self._name.fault(error) from error
        return None

    def read_on(self, offset: int, max_bytes: int, up_to_offset: int) -> FileSlice | None:
        """Return what `read` would, for a reader who goes on where it stopped; None when that takes a look at the file. Hot.

        `offset` is within the log. Raises `FolderFault`.
        """
        try:
            return self._segments.holding(offset).slice_on(offset, max_bytes, up_to_offset)
        except OSError as error:
            raise self._name.fault(error) from error

    def stretch(self, offset: int, max_bytes: int) -> FileSlice | None:
        """Return the bytes that `read(offset, max_bytes)` would look at, None for none: to be brought into memory first. Hot.

        Not cut to batches, and without the rest of a batch that is longer than `max_bytes`. `offset` is within the log. Raises
        `FolderFault`.
        """
        segment = self._segments.holding(offset)
        try:
            return segment.stretch(offset, max_bytes)
        except OSError as error:
            raise self._name.fault(error) from error

    def offset_for_time(self, timestamp_ms: int) -> Found:
        """Return (offset, timestamp) of the first record at `timestamp_ms` or later, None for none, with pauses. Raises
        `FolderFault`.
        """
        return self._searched(lambda segments, start: first_at_or_after(segments, timestamp_ms, start))

    def largest_timestamp(self) -> Found:
        """Return (offset, timestamp) of the first record with the largest timestamp, None for none, with pauses. Raises
        `FolderFault`.
        """
        peak_ms = yield from self._searched(largest)
        return None if peak_ms is None else (yield from self.offset_for_time(peak_ms))

    def _searched(self, search: Callable[[Iterator[Segment], int], Generator[None, None, T]]) -> Generator[None, None, T]:
        while True:
            start_offset = self.log_start_offset
            try:
                return (yield from search(self._segments.held_from(start_offset), start_offset))
            except OSError as error:
                # Else a segment was deleted in a pause, and the search begins anew.
                if self.log_start_offset == start_offset:
                    raise self._name.fault(error) from error

    def _out_of_range(self, offset: int) -> OffsetOutOfRange:
        return self._name.out_of_range(offset, self.log_start_offset, self.log_end_offset)

    def close(self) -> None:
        """Flush, keep the time of the last append, let go of the files, take no more. Raises as `flush`, closed even then."""
        try:
            self._end.close()
        finally:
            self._segments.let_go()
