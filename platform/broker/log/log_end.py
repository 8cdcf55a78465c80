"""The growing end of a log: write batches, roll segments, flush, and stop after a failed flush.

The caller says what is written where; only the roll is decided here. Invariant: everything before `flushed_offset` is on disk,
and `flushed_offset` never decreases.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

from ...wire.batch.record_batch import BatchHeader
from .errors import LogError, LogUnusable
from .first_append import FirstAppend, NoteJob
from .jobs.checkpoint_job import CheckpointJob, CheckpointWork
from .jobs.flush_job import FlushJob, FlushWork
from .jobs.log_job import LogJob
from .log_config import LogConfig
from .log_name import LogName
from .preallocated_tail import PreallocatedTail
from .producer_state import ProducerStates
from .roll import must_roll
from .segment.batch_run import BatchRun
from .segment.segment import CutBackFailed, Segment
from .segments import Segments


class LogEnd:
    """The end of the log of these `segments`."""

    __slots__ = (
        "_entries_made",
        "_entries_on_disk",
        "_name",
        "_preallocated_tail",
        "_producers",
        "_segments",
        "_were_names_on_disk",
        "config",
        "failure",
        "flushed_offset",
        "pending_note",
    )

    def __init__(
        self, name: LogName, segments: Segments, producers: ProducerStates, config: LogConfig, *, are_names_on_disk: bool
    ) -> None:
        """`are_names_on_disk`: the folder and all present segment files have their names on disk."""
        self.config = config
        self.failure: LogUnusable | None = None
        """Why nothing more is appended, None while the log works."""
        self.flushed_offset = next((each.flushed_offset for each in segments if not each.is_flushed), segments.active.end_offset)
        self.pending_note: FirstAppend | None = None
        """The first append of the active segment, until the file `first-append` names it."""
        self._name = name
        self._segments = segments
        self._producers = producers
        self._preallocated_tail = PreallocatedTail()
        # Two counts and not a flag, so that a job that is never run changes nothing.
        self._entries_made = 0 if are_names_on_disk else 1
        self._were_names_on_disk = are_names_on_disk
        self._entries_on_disk = 0

    # -- growing -----------------------------------------------------------------------------------

    def segment_for(self, advance: int, size_bytes: int, now_ms: int) -> Segment:
        """Return the segment for the next batch: the active one, or a new one when that is too large or too old. Hot."""
        active, config = self._segments.active, self.config
        if must_roll(
            held_bytes=active.end_offset - active.base_offset,
            advance=advance,
            segment_bytes=config.segment_bytes,
            first_append_ms=active.first_append_ms,
            segment_ms=config.segment_ms,
            now_ms=now_ms,
        ):
            if config.flush_on_roll:
                self.flush()
            return self.begin_segment(active.end_offset, size_bytes, now_ms)
        return active

    def write(
        self, segment: Segment, batch: bytes | bytearray | memoryview, header: BatchHeader, advance: int, now_ms: int
    ) -> None:
        """Append a placed batch to `segment`, the active one, and record its producer. Raises `AppendFailed`, `LogUnusable`."""
        offset = segment.end_offset
        is_first = not segment.size_bytes
        try:
            segment.append(batch, header, advance, now_ms)
        except CutBackFailed as error:
            self.failure = self._name.unusable(segment.path, str(error))
            raise self.failure from error
        except OSError as error:
            raise self._name.append_failed(offset, header.size_bytes, segment.path, error) from error
        if header.producer_id >= 0:
            self._producers.record(header, offset + advance - header.record_count)
        if is_first:
            self.pending_note = FirstAppend(self._name.folder, segment.base_offset, now_ms)

    def run_room(self, now_ms: int) -> tuple[int, int] | None:
        """Return the log end and the offset that a run of batches may reach from there. Hot.

        None when the next batch must go through `append`: it is the first of a segment, or the log takes no more.
        """
        active, config = self._segments.active, self.config
        if self.failure is not None or not active.size_bytes or now_ms - active.first_append_ms >= config.segment_ms:
            return None
        return active.end_offset, active.base_offset + config.segment_bytes

    def write_run(self, run: BatchRun, now_ms: int) -> None:
        """Append a run to the active segment and record its producer. Raises as `write`."""
        segment = self._segments.active
        offset = segment.end_offset
        try:
            segment.append_run(run, now_ms)
        except CutBackFailed as error:
            self.failure = self._name.unusable(segment.path, str(error))
            raise self.failure from error
        except OSError as error:
            raise self._name.append_failed(offset, run.end_offset - offset, segment.path, error) from error
        if run.sequences:
            self._producers.record_run(run.producer_id, run.sequences)

    def begin_segment(self, base_offset: int, size_bytes: int, now_ms: int) -> Segment:
        """Close the active segment and return a new one at `base_offset`, for a batch of `size_bytes`. Raises `AppendFailed`."""
        closed = self._segments.active
        self._preallocated_tail.cut_off(closed)
        try:
            segment = self._segments.begin(base_offset, now_ms, index_interval_bytes=self.config.index_interval_bytes)
        except OSError as error:
            raise self._name.append_failed(base_offset, size_bytes, self._name.folder, error) from error
        self._entries_made += 1
        closed.sidecar.closing_producers = self._producers.snapshot()
        return segment

    def move_to(self, base_offset: int, size_bytes: int, now_ms: int) -> Callable[[], None]:
        """Make `base_offset` the log end and leave a gap before it; return what undoes this. Raises as `write`."""
        active = self._segments.active
        if active.size_bytes or active.index.bad_ranges:
            if self.config.flush_on_roll:
                self.flush()
            self.begin_segment(base_offset, size_bytes, now_ms)
            return self._segments.take_back
        old_base_offset = active.base_offset
        try:
            self._segments.move_active(base_offset)
        except OSError as error:
            raise self._name.append_failed(base_offset, size_bytes, active.path, error) from error
        self._entries_made += 1
        return lambda: self._segments.move_active(old_base_offset)

    # -- getting to the disk -----------------------------------------------------------------------

    def flush(self) -> None:
        """Wait until everything appended is on disk. Raises `LogUnusable`: after a failed flush the disk's content is unknown."""
        job = self.flush_job()
        if job is not None:
            job.run_to_end()

    def flush_job(self, *, more_follow: bool = False) -> FlushJob | None:
        """Return what puts on disk everything appended until now, None when it is there already. Raises `FolderFault`.

        `more_follow`: acknowledgements wait for flushes, so the next one is worth preparing (`PreallocatedTail`).
        """
        unflushed = self._segments.unflushed()
        if not unflushed and not self._dirty_folders():
            return None
        if more_follow:
            self._preallocated_tail.before_flush(self._segments.active)
        try:
            work = FlushWork(
                self._name.folder,
                up_to_offset=self._segments.active.end_offset,
                segments=unflushed,
                folders=self._dirty_folders(),
                entries_made=self._entries_made,
            )
        except OSError as error:
            raise self._name.fault(error) from error
        return LogJob(work, done=self.flush_done, failed=self.flush_failed)

    def flush_done(self, work: FlushWork) -> None:
        """Record that `work` has run.

        After a failed flush nothing counts as flushed any more: the system reports lost pages once, so the success of this flush
        may hide what another flush has lost.
        """
        if self.failure is not None:
            return
        for segment in work.mark_segments():
            self._segments.close_if_idle(segment)
        self.flushed_offset = max(self.flushed_offset, work.up_to_offset)
        self._entries_on_disk = max(self._entries_on_disk, work.entries_made)

    def flush_failed(self, work: FlushWork, error: OSError) -> LogUnusable:
        """Record that a flush failed; return the error that appends get from now on.

        The system may have dropped the pages that it could not write, and reports that only once. A second try would report
        success for lost data.
        """
        self.failure = self._name.unusable(self._name.folder, f"a flush failed: {error.strerror or error}")
        return self.failure

    def entries_work(self) -> FlushWork | None:
        """Return what puts the names of all present segment files on disk, None when they are there. Raises OSError."""
        folders = self._dirty_folders()
        if not folders:
            return None
        return FlushWork(
            self._name.folder,
            up_to_offset=self.flushed_offset,
            segments=[],
            folders=folders,
            entries_made=self._entries_made,
        )

    def _dirty_folders(self) -> list[Path]:
        """Return the folders with entries that may not be on disk: the log's folder and, when that may be new, its parent."""
        if self._entries_made == self._entries_on_disk:
            return []
        folder = self._name.folder
        return [folder] if self._were_names_on_disk or self._entries_on_disk else [folder, folder.parent]

    def start_moved(self, log_start_offset: int) -> None:
        """Record that everything before the new log start is gone, flushed or not."""
        self.flushed_offset = max(self.flushed_offset, log_start_offset)

    def checkpoint_job(self) -> CheckpointJob | None:
        """Return what writes missing and outdated sidecars, None when all are up to date. Raises `FolderFault`."""
        if self.failure is not None:
            return None  # The content of the disk and of the page cache is unknown.
        work = CheckpointWork(self._name.folder, self.flushed_offset)
        active = self._segments.active
        try:
            for segment in self._segments.unindexed:
                if segment.needs_sidecar:
                    work.add(segment, segment.sidecar.closing_producers)
            if active.needs_sidecar:
                work.add(active, self._producers.snapshot())
        except OSError as error:
            raise self._name.fault(error) from error
        return LogJob(work, done=self._checkpoint_done, failed=self._checkpoint_failed) if len(work) else None

    def _checkpoint_done(self, work: CheckpointWork) -> None:
        for segment in work.mark_segments():
            if segment is not self._segments.active:
                if segment.sidecar.is_durable:
                    segment.sidecar.closing_producers = None
                    self._segments.unindexed.discard(segment)
                self._segments.close_if_idle(segment)

    def _checkpoint_failed(self, work: CheckpointWork, error: OSError) -> LogError:
        return self._name.fault(error)  # Nothing else to do: the next job writes the same sidecars.

    def note_job(self) -> NoteJob | None:
        """Return what notes the age of the active segment on disk, None when that is done."""
        if self.pending_note is None:
            return None
        return LogJob(self.pending_note, done=self._note_done, failed=self._note_failed)

    def _note_done(self, note: FirstAppend) -> None:
        if self.pending_note is note:
            self.pending_note = None

    def _note_failed(self, note: FirstAppend, error: OSError) -> LogError:
        return self._name.fault(error)

    def close(self) -> None:
        """Flush, keep the time of the last append, write the sidecars for the next start, take no more appends.

        Raises `FolderFault`, `LogUnusable`; the log is closed then, too.
        """
        if self.failure is not None:
            return
        try:
            if self.pending_note is not None:
                self.pending_note.run()
            self._preallocated_tail.cut_off(self._segments.active)
            self.flush()
            self._segments.active.keep_times()
            with contextlib.suppress(OSError):  # Sidecars are disposable.
                if (job := self.checkpoint_job()) is not None:
                    job.run()
        except OSError as error:
            raise self._name.fault(error) from error
        finally:
            self.failure = self.failure or self._name.unusable(self._name.folder, "it is closed")
