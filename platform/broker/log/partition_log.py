"""One partition's log: append at the end, read anywhere, delete old segments at the start.

A batch is stored as it came, except for the twelve header bytes that `wire.place` sets. One thread owns the log; jobs run on
others, and a `FileRegion` may be read by others. The log flushes when a caller asks, and when a segment is closed
(`LogConfig.flush_on_roll`). It knows no topic settings, no high watermark, no clock and no log lines. Source: the paper's section
3.1, rules of the log.

Slow work is a `LogJob`: make it here, run it on any thread, then call its `done` or `failed` on the log's thread.

Invariants: segments ascend and do not overlap; the last one is the active one, is always there, and its end is the log end; the
bytes of an offset below the log end never change; `flushed_offset` never decreases.
"""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TypeVar

from ...wire.batch.record_batch import BatchHeader, place, read_header
from . import folder as folders
from . import leader_epochs, log_cut
from .conditional_append import AlreadyThere, Appended, Refused
from .errors import BatchRefused, DamageAhead, LogUnusable
from .first_append import NoteJob
from .jobs.checkpoint_job import CheckpointJob
from .jobs.expire_job import ExpireJob
from .jobs.flush_job import FlushJob
from .jobs.segment_scrub import ScrubJob
from .jobs.start_job import StartJob
from .leader_epochs import LeaderEpochs
from .log_comparison import LogComparison, damage_between
from .log_config import LogConfig
from .log_end import LogEnd
from .log_name import LogName
from .log_scrub import LogScrub
from .log_start import Erase, LogStart, erase_now
from .mirrored_append import MirroredAppend
from .offset_time import Found, first_at_or_after, largest
from .producer_state import ProducerStates
from .recovery import RecoveryReport, of_new_folder, recover
from .retention import SegmentFacts
from .segment.bad_range import BadRange
from .segment.batch_run import BatchRun
from .segment.file_region import FileRegion
from .segment.segment import Segment
from .segment.segment_name import file_name
from .segments import DeletedSegment, Segments

T = TypeVar("T")


class PartitionLog:
    """Made by `open`."""

    __slots__ = (
        "_end",
        "_epochs",
        "_mirrored",
        "_name",
        "_scrub",
        "_segments",
        "_start",
        "comparison",
        "producers",
        "recovery",
        "skips_damage",
    )

    def __init__(
        self,
        name: LogName,
        *,
        segments: Segments,
        end: LogEnd,
        producers: ProducerStates,
        recovery: RecoveryReport,
        epochs: LeaderEpochs = (),
    ) -> None:
        self.producers = producers
        """Ask `producers.classify(header)` before `append`. The log records appended batches."""
        self.recovery = recovery
        self._name = name
        self._segments = segments
        self._end = end
        self._epochs = epochs
        self._start = LogStart(name, segments, end)
        self._mirrored = MirroredAppend(name, segments, end)
        self._scrub = LogScrub(name, segments)
        self.comparison = LogComparison(name, segments, self._scrub)
        """For a replica: compares and repairs."""
        self.skips_damage = True
        """Whether a read continues behind damage. Not so in a replica, where the damage will be repaired."""

    @classmethod
    def open(cls, folder: Path, *, topic: str, partition: int, config: LogConfig, now_ms: int) -> "PartitionLog":
        """Return the log in `folder`: new when the folder is missing, recovered after a crash. `recovery` says what was found.

        Reads the part that no sidecar describes. May run on another thread than the one that uses the log later. Raises
        `FolderFault`, `OldFormat`.
        """
        name = LogName(topic, partition, folder)
        producers = ProducerStates(config.producer_capacity)
        try:
            is_new = folders.make(folder, enter=config.flush_at_open)
            if is_new:
                found = of_new_folder(flush=config.flush_at_open)
            else:
                found = recover(
                    folder, producers=producers, index_interval_bytes=config.index_interval_bytes, flush=config.flush_at_open
                )
            row = found.segments
            start_offset, are_names_on_disk = found.start_offset, found.is_flushed
            if not row or row[-1].end_offset < start_offset:
                # No offset is used twice, even when the files below a noted start were lost.
                first = Segment(folder / file_name(start_offset), start_offset, index_interval_bytes=config.index_interval_bytes)
                row.append(first.create(now_ms))
                if are_names_on_disk := config.flush_at_open:
                    folders.sync(folder)
                    if not is_new:
                        folders.sync(folder.parent)  # The process that made the folder may have been killed before this.
            segments = Segments(folder, row, start_offset)
            while segments.count_before(segments.start_offset) > 0 and len(segments) > 1:
                erase_now(segments.drop_first())  # A crash came between the note and the deletion.
            # What a crash took away had its epoch in the list already.
            epochs = leader_epochs.before(leader_epochs.read(folder), segments.active.end_offset)
        except OSError as error:
            raise name.fault(error) from error
        except ValueError as error:
            raise name.unusable(folder, str(error)) from error
        end = LogEnd(name, segments, producers, config, are_names_on_disk=are_names_on_disk)
        return cls(name, segments=segments, end=end, producers=producers, recovery=found.report, epochs=epochs)

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
        """May be replaced at any time. A new `producer_capacity` counts from the next opening."""
        return self._end.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._end.config = config

    @property
    def log_start_offset(self) -> int:
        """Return the first offset that may be read: the first segment's base, or a later one that `advance_start` set."""
        return self._segments.start_offset

    @property
    def log_end_offset(self) -> int:
        """Return the position of the next batch."""
        return self._segments.active.end_offset

    @property
    def flushed_offset(self) -> int:
        """Return the offset before which everything is on disk."""
        return self._end.flushed_offset

    @property
    def size_bytes(self) -> int:
        """Return the bytes in the files, without holes."""
        return self._segments.size_bytes

    @property
    def bad_ranges(self) -> list[BadRange]:
        """Return the ranges that are never served, in order: damage found at opening, by the scrub or by a read. What was deleted
        since is not among them.
        """
        start_offset = self._segments.start_offset
        return [bad for bad in self._segments.bad_ranges if bad.to_offset > start_offset]

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Return the half-open ranges that never held anything: retention had deleted them at a mirror's source."""
        return self._segments.gaps

    @property
    def segments(self) -> list[SegmentFacts]:
        return [segment.facts() for segment in self._segments]

    @property
    def failure(self) -> LogUnusable | None:
        """Return why the log takes no more appends, None while it takes them."""
        return self._end.failure

    # -- appending ---------------------------------------------------------------------------------

    def append(
        self, batch: bytearray | memoryview, now_ms: int, *, header: BatchHeader | None = None, leader_epoch: int = 0
    ) -> Appended:
        """Write `batch` at the log end and return its offsets. Hot: 1.7 µs besides `place` and the write.

        `batch` is writable and holds exactly one batch; the caller has checked its CRC. It is changed in place (`wire.place`) and
        not kept. `header`, when given, is not read again. Raises `BatchRefused`; `AppendFailed`, the log then being unchanged;
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
        """Return the log end and the offset that a run of batches may reach from there; None when only `append` will do."""
        return self._end.run_room(now_ms)

    def append_run(self, run: BatchRun, now_ms: int) -> None:
        """Write placed batches at the log end, all of them or none, in one write. Hot.

        They begin where `run_room` said and stay within it. The caller has checked them as for `append`, has placed them and has
        checked that their sequences are the next ones. Raises `AppendFailed`, the log then being unchanged; `LogUnusable`.
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
        """Write a mirrored batch at its own position, if it belongs there. Only the leader epoch in its bytes is changed.

        At the log end it is appended. Below the log end, the same batch is `AlreadyThere`. A log that never held anything starts
        at the source's start. When retention has deleted at the source what is missing here, the log jumps (`jumped_from`).
        Everything else is `Refused`, with the facts. Sequences are recorded, not checked. The caller has checked the CRC. Raises
        as `append`.
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
        """Return the header of the batch whose first record is at `base_offset`, None for none. Raises `FolderFault`."""
        if not self.log_start_offset <= base_offset < self.log_end_offset:
            return None
        segment = self._segments.holding(base_offset)
        try:
            position = segment.locate(base_offset)
            header = None if position is None else segment.header_at(position)
        except OSError as error:
            raise self._name.fault(error) from error
        return header if header is not None and header.base_offset == base_offset else None

    # -- replication -------------------------------------------------------------------------------

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """Return at which offset each leader epoch began, ascending; () for a log that was never replicated."""
        return self._epochs

    def begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Add a leader epoch, whose first batch will be at `start_offset` or later. On disk on return. Raises `FolderFault`."""
        epochs = leader_epochs.with_epoch(self._epochs, leader_epoch, start_offset)
        try:
            leader_epochs.write(self.folder, epochs)
        except OSError as error:
            raise self._name.fault(error) from error
        self._epochs = epochs

    def jump_to(self, offset: int, now_ms: int) -> None:
        """Let the log go on at `offset`, behind its end: an empty log begins there, any other one gets a gap in front of it.

        On disk with the next flush. Raises `OffsetOutOfRange` before the log end, `AppendFailed`, `LogUnusable`.
        """
        if self._end.failure is not None:
            raise self._end.failure
        if offset < self.log_end_offset:
            raise self._name.out_of_range(offset, self.log_start_offset, self.log_end_offset)
        if offset > self.log_end_offset:
            self._end.move_to(offset, 0, now_ms)

    def cut_end(self, to_offset: int, *, aside: Path, now_ms: int) -> "PartitionLog":
        """Close this log, make it end at `to_offset`, durably, and return it opened again. `log_cut` says how.

        Everything from `to_offset` on goes to the folder `aside`. No job of this log may be under way; one that is reported later
        changes nothing. In a gap, the log ends where the gap begins. Raises `OffsetOutOfRange` inside a batch or damage,
        `FolderFault`, `LogUnusable`.
        """
        if not self._is_end_of_batch(to_offset):
            raise self._name.out_of_range(to_offset, self.log_start_offset, self.log_end_offset)
        config = self.config
        self.close()
        try:
            log_cut.cut(self.folder, to_offset, aside=aside)
        except OSError as error:
            raise self._name.fault(error) from error
        return PartitionLog.open(self.folder, topic=self.topic, partition=self.partition, config=config, now_ms=now_ms)

    def _is_end_of_batch(self, offset: int) -> bool:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return False
        if offset in (self.log_end_offset, self._segments.holding(offset).base_offset):
            return True
        if any(begin <= offset < end for begin, end in self.gaps):
            return True  # The log then ends where the gap begins.
        if any(bad.from_offset == offset for bad in self.bad_ranges):
            return True
        try:
            segment = self._segments.holding(offset)
            return segment.end_offset == offset or segment.header_at(offset) is not None
        except OSError as error:
            raise self._name.fault(error) from error

    # -- deleting ----------------------------------------------------------------------------------

    def expire(self, now_ms: int, *, up_to_offset: int | None = None, erase: Erase = erase_now) -> list[DeletedSegment]:
        """Delete the expired segments (`retention.expired` decides) and return them, oldest first. Waits for the disk.

        When the active segment is among them, it is closed first: the log end stays, as an empty segment. Readers that hold
        regions can still read them. Raises `FolderFault`, `AppendFailed`.
        """
        job = self.expire_job(now_ms, up_to_offset=up_to_offset, erase=erase)
        return [] if job is None else job.run_to_end()

    def expire_job(self, now_ms: int, *, up_to_offset: int | None = None, erase: Erase = erase_now) -> ExpireJob | None:
        """Return `expire` as a job, None when nothing has expired. `erase` may pass the files to another thread."""
        return self._start.expire_job(now_ms, up_to_offset=up_to_offset, erase=erase)

    def advance_start(self, offset: int, now_ms: int, *, erase: Erase = erase_now) -> list[DeletedSegment]:
        """Make the log start at `offset`, which may be inside a segment or a batch; return the deleted segments.

        Waits for the disk: the new start is durable on return. A start that is at `offset` or later stays. Raises
        `OffsetOutOfRange` beyond the log end, `FolderFault`, `LogUnusable`, `AppendFailed`.
        """
        job = self.start_job(offset, now_ms, erase=erase)
        return [] if job is None else job.run_to_end()

    def start_job(self, offset: int, now_ms: int, *, erase: Erase = erase_now) -> StartJob | None:
        """Return `advance_start` as a job, None when the log starts there or later already."""
        return self._start.start_job(offset, now_ms, erase=erase)

    # -- flushing ----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Wait until everything appended is on disk. Raises `LogUnusable`: after a failed flush the disk's content is unknown."""
        self._end.flush()

    def flush_job(self, *, more_follow: bool = False) -> FlushJob | None:
        """Return what puts on disk everything appended until now, None when it is there already.

        Several may be under way. After a failure appends raise `LogUnusable` until the log is opened again. `more_follow`: others
        will wait for the next flush too, so space for it is written ahead (`preallocated_tail`). Raises `FolderFault`.
        """
        return self._end.flush_job(more_follow=more_follow)

    @property
    def has_unflushed_segments(self) -> bool:
        """Return whether a closed segment is not on disk. Cheap."""
        return self._end.flushed_offset < self._segments.active.base_offset and len(self._segments) > 1

    # -- preparing the next start ------------------------------------------------------------------

    @property
    def unindexed_bytes(self) -> int:
        """Return how much the next start would have to walk if the process died now. Cheap."""
        return self._segments.unindexed_bytes

    @property
    def needs_sidecars(self) -> bool:
        """Return whether a closed segment waits for its sidecar. Cheap."""
        closed = self._segments.unindexed
        return bool(closed) and any(segment.needs_sidecar for segment in closed)

    @property
    def awaits_sidecars(self) -> bool:
        """Return whether a closed segment has no lasting sidecar yet. It may need one as soon as it is flushed. Cheap."""
        return bool(self._segments.unindexed)

    def checkpoint_job(self) -> CheckpointJob | None:
        """Return what writes the sidecars that make the next start fast, None when they are up to date. One at a time.

        Raises `FolderFault`.
        """
        return self._end.checkpoint_job()

    def note_job(self) -> NoteJob | None:
        """Return what notes the age of the active segment on disk, None when that is done.

        Without it a start after a kill takes the segment for younger than it is.
        """
        return self._end.note_job()

    def scrub_job(self) -> ScrubJob | None:
        """Return what verifies the next part of what the start took over unread, None when everything is verified.

        One at a time. It returns the damage that it has found and that was not known.
        """
        return self._scrub.job()

    # -- reading -----------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, up_to_offset: int | None = None) -> FileRegion | None:
        """Return whole batches from the one that answers `offset` on, None when there is none before `up_to_offset`. Hot.

        A batch answers every offset from its position to the next batch's position. `up_to_offset` None: the log end. At most
        `max_bytes`, but at least one batch. The region ends at a hole, a segment's end, a bad range, or earlier. It stays
        readable while it is held, even when its segment is deleted. Raises `OffsetOutOfRange`, `FolderFault`; `DamageAhead` where
        damage is not skipped.
        """
        segments = self._segments
        log_end_offset = segments.active.end_offset
        if offset > log_end_offset or offset < segments.start_offset:
            raise self._name.out_of_range(offset, segments.start_offset, log_end_offset)
        if up_to_offset is None or up_to_offset > log_end_offset:
            up_to_offset = log_end_offset
        if offset >= up_to_offset:
            return None
        try:
            for segment in segments.from_offset(offset):
                while (start := segment.locate(offset)) is not None:
                    if segment.index.bad_ranges and not self.skips_damage:
                        self._check_damage(segment, offset, min(start, up_to_offset))
                    found = segment.read(start, max_bytes, up_to_offset) if start < up_to_offset else None
                    # None is the answer, unless this read has just found damage here: then try what is behind it.
                    if found is not None or segment.locate(offset) == start:
                        return found
                if segment.index.bad_ranges and not self.skips_damage:
                    self._check_damage(segment, offset, up_to_offset)
        except OSError as error:
            raise self._name.fault(error) from error
        return None

    def _check_damage(self, segment: Segment, from_offset: int, to_offset: int) -> None:
        """Raise `DamageAhead` where the segment is damaged between these offsets."""
        bad = damage_between(segment.index.bad_ranges, from_offset, to_offset)
        if bad is not None:
            raise DamageAhead(topic=self.topic, partition=self.partition, from_offset=bad.from_offset, to_offset=bad.to_offset)

    def read_on(self, offset: int, max_bytes: int, up_to_offset: int) -> FileRegion | None:
        """Return what `read` would, for a reader that continues where it stopped; None when the file must be read for it. Hot.

        `offset` is within the log. Raises `FolderFault`.
        """
        try:
            return self._segments.holding(offset).read_on(offset, max_bytes, up_to_offset)
        except OSError as error:
            raise self._name.fault(error) from error

    def region(self, offset: int, max_bytes: int) -> FileRegion | None:
        """Return the bytes that `read(offset, max_bytes)` would look at, None for none: to be loaded into memory first. Hot.

        Not cut to batches, and without the rest of a batch that is longer than `max_bytes`. `offset` is within the log. Raises
        `FolderFault`.
        """
        segment = self._segments.holding(offset)
        try:
            return segment.region(offset, max_bytes)
        except OSError as error:
            raise self._name.fault(error) from error

    def offset_for_time(self, timestamp_ms: int) -> Found:
        """Return (offset, timestamp) of the first record at `timestamp_ms` or later, None for none.

        A generator that pauses, so that the caller can do other work in between. Raises `FolderFault`.
        """
        return self._searched(lambda segments, start: first_at_or_after(segments, timestamp_ms, start))

    def largest_timestamp(self) -> Found:
        """Return (offset, timestamp) of the first record with the largest timestamp. Otherwise as `offset_for_time`."""
        peak_ms = yield from self._searched(largest)
        return None if peak_ms is None else (yield from self.offset_for_time(peak_ms))

    def _searched(self, search: Callable[[Iterator[Segment], int], Generator[None, None, T]]) -> Generator[None, None, T]:
        while True:
            start_offset = self.log_start_offset
            try:
                return (yield from search(self._segments.listed_from(start_offset), start_offset))
            except OSError as error:
                # Otherwise a segment was deleted in a pause: search again.
                if self.log_start_offset == start_offset:
                    raise self._name.fault(error) from error

    def close(self) -> None:
        """Flush, keep the time of the last append, close the files, take no more appends.

        Raises as `flush`; the log is closed then, too.
        """
        try:
            self._end.close()
        finally:
            self._segments.close_files()
