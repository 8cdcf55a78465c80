"""The growing end of a log: writes batches, rolls segments, gets them to the disk, knows when the disk is not to be trusted.

Is told what goes where; decides only when a segment rolls. Invariant: what is before `flushed_offset` is on disk, and it never
goes back.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

from ...wire.record_batch import BatchHeader
from .errors import LogUnusable
from .first_append import FirstAppend
from .jobs.checkpoint_job import CheckpointJob
from .jobs.flush_job import FlushJob
from .log_config import LogConfig
from .log_name import LogName
from .preallocated_tail import Spare
from .producer_state import ProducerStates
from .roll import must_roll
from .segment.batch_run import BatchRun
from .segment.segment import CutBackFailed, Segment
from .segments import Segments


class LogEnd:
    """The end of the log that `segments` make."""

    __slots__ = (
        "_entries_made",
        "_entries_on_disk",
        "_name",
        "_producers",
        "_segments",
        "_spare",
        "_was_entered",
        "config",
        "failure",
        "flushed_offset",
        "unnoted",
    )

    def __init__(
        self, name: LogName, segments: Segments, producers: ProducerStates, config: LogConfig, *, is_entered: bool
    ) -> None:
        """`is_entered`: a power cut can lose neither the folder nor a segment file that is there now."""
        self.config = config
        self.failure: LogUnusable | None = None
        """Why nothing more is appended, None while all is well."""
        self.flushed_offset = next((each.flushed_offset for each in segments if not each.is_flushed), segments.active.end_offset)
        self.unnoted: FirstAppend | None = None
        """When the active segment got its first append, until that is noted beside it."""
        self._name = name
        self._segments = segments
        self._producers = producers
        self._spare = Spare()
        # Counted and not flagged, so that a job that is never run takes nothing with it.
        self._entries_made = 0 if is_entered else 1
        self._was_entered = is_entered
        self._entries_on_disk = 0

    # -- growing -----------------------------------------------------------------------------------

    def segment_for(self, advance: int, size_bytes: int, now_ms: int) -> Segment:
        """Return the segment that takes the next batch: the active one, or a new one when its size or age says so. Hot."""
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
        """Append a placed batch to `segment`, the active one, remember its producer. Raises `AppendFailed`, `LogUnusable`."""
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
            self.unnoted = FirstAppend(self._name.folder, segment.base_offset, now_ms)

    def run_room(self, now_ms: int) -> tuple[int, int] | None:
        """Return the log end and how far a run of batches may reach from there; None where the next batch is one to `append`:
        the first of a segment, or one that no segment takes any more. Hot.
        """
        active, config = self._segments.active, self.config
        if self.failure is not None or not active.size_bytes or now_ms - active.first_append_ms >= config.segment_ms:
            return None
        return active.end_offset, active.base_offset + config.segment_bytes

    def write_run(self, run: BatchRun, now_ms: int) -> None:
        """Append a run to the active segment, remember its producer. Raises as `write`."""
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
        self._spare.give_up(closed)
        try:
            segment = self._segments.begin(base_offset, now_ms, index_interval_bytes=self.config.index_interval_bytes)
        except OSError as error:
            raise self._name.append_failed(base_offset, size_bytes, self._name.folder, error) from error
        self._entries_made += 1
        closed.closing_producers = self._producers.snapshot()
        return segment

    def move_to(self, base_offset: int, size_bytes: int, now_ms: int) -> Callable[[], None]:
        """Make `base_offset` the log end, nothing being in between; return what takes it back. Raises as `write`."""
        active = self._segments.active
        if active.size_bytes or active.bad_ranges:
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
        """Return when all that is appended is on disk. Raises `LogUnusable`: after a failed flush nobody knows what is there."""
        job = self.flush_job()
        if job is not None:
            try:
                job.run()
            except OSError as error:
                raise self.flush_failed(error) from error
            self.flush_done(job)

    def flush_job(self, *, more_follow: bool = False) -> FlushJob | None:
        """Return what puts on disk all that is appended by now, None when all is there. Raises `FolderFault`.

        `more_follow` says that flushes are waited for, so that the next is worth preparing (`Spare`).
        """
        unflushed = self._segments.unflushed()
        if not unflushed and not self._dirty_folders():
            return None
        if more_follow:
            self._spare.before_flush(self._segments.active)
        try:
            return FlushJob(
                self._name.folder,
                up_to_offset=self._segments.active.end_offset,
                segments=unflushed,
                folders=self._dirty_folders(),
                entries_made=self._entries_made,
            )
        except OSError as error:
            raise self._name.fault(error) from error

    def flush_done(self, job: FlushJob) -> None:
        """Take note that `job` has run. After a failure nothing counts as flushed any more: the system tells of lost pages once,
        so that this job's success may be the other side of another's error.
        """
        if self.failure is not None:
            return
        for segment in job.done():
            self._segments.let_go_if_idle(segment)
        self.flushed_offset = max(self.flushed_offset, job.up_to_offset)
        self._entries_on_disk = max(self._entries_on_disk, job.entries_made)

    def flush_failed(self, error: OSError) -> LogUnusable:
        """Take note that a job failed, and return the error that appends get from now on.

        The system may have dropped the pages that it could not write, and says so only once: a second try would report success
        for lost data.
        """
        self.failure = self._name.unusable(self._name.folder, f"a flush failed: {error.strerror or error}")
        return self.failure

    def entries_job(self) -> FlushJob | None:
        """Return what sees to it that no power cut loses a segment file that is there now, None when none can. Raises OSError."""
        folders = self._dirty_folders()
        if not folders:
            return None
        return FlushJob(
            self._name.folder,
            up_to_offset=self.flushed_offset,
            segments=[],
            folders=folders,
            entries_made=self._entries_made,
        )

    def _dirty_folders(self) -> list[Path]:
        """Return the folders with entries that may not be on disk: the log's, and the one that it is in where it may be new."""
        if self._entries_made == self._entries_on_disk:
            return []
        folder = self._name.folder
        return [folder] if self._was_entered or self._entries_on_disk else [folder, folder.parent]

    def start_moved(self, log_start_offset: int) -> None:
        """Take note that what was before the new log start is gone, flushed or not."""
        self.flushed_offset = max(self.flushed_offset, log_start_offset)

    def checkpoint_job(self) -> CheckpointJob | None:
        """Return what writes the sidecars that are missing or out of date, None when there are none. Raises `FolderFault`."""
        if self.failure is not None:
            return None  # What is on disk, and in the page cache, is not known.
        job = CheckpointJob(self._name.folder, self.flushed_offset)
        active = self._segments.active
        try:
            for segment in self._segments.undescribed:
                if segment.needs_sidecar:
                    job.add(segment, segment.closing_producers)
            if active.needs_sidecar:
                job.add(active, self._producers.snapshot())
        except OSError as error:
            raise self._name.fault(error) from error
        return job if len(job) else None

    def checkpoint_done(self, job: CheckpointJob) -> None:
        """Take note that `job` has run."""
        for segment in job.done():
            if segment is not self._segments.active:
                if segment.is_described_for_ever:
                    segment.closing_producers = None
                    self._segments.undescribed.discard(segment)
                self._segments.let_go_if_idle(segment)

    def close(self) -> None:
        """Flush, keep the time of the last append, describe all for the next opening, take no more.

        Raises `FolderFault`, `LogUnusable`, closed even then.
        """
        if self.failure is not None:
            return
        try:
            if self.unnoted is not None:
                self.unnoted.run()
            self._spare.give_up(self._segments.active)
            self.flush()
            self._segments.active.keep_times()
            with contextlib.suppress(OSError):  # Sidecars are disposable.
                if (job := self.checkpoint_job()) is not None:
                    job.run()
        except OSError as error:
            raise self._name.fault(error) from error
        finally:
            self.failure = self.failure or self._name.unusable(self._name.folder, "it is closed")
