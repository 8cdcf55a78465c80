"""The old end of a log: delete expired segments, and move the log start for DeleteRecords.

Each is a job, so that the log's thread does not wait for the disk. `retention.expired` decides what expires. Invariant: what
stays is on disk before anything in front of it is deleted.
"""

from collections.abc import Callable
from functools import partial

from . import folder as folders
from .errors import LogError
from .jobs.expire_job import ExpireJob, ExpireWork
from .jobs.log_job import LogJob
from .jobs.start_job import StartJob, StartWork
from .log_end import LogEnd
from .log_name import LogName
from .retention import expired
from .segment import sidecar_file
from .segments import DeletedSegment, Segments

Erase = Callable[[DeletedSegment], None]
"""Deletes the file of a segment that is no longer part of the log."""


def erase_now(deleted: DeletedSegment) -> None:
    """Delete the file and its sidecars, waiting for the disk on this thread. Raises OSError."""
    folders.sync(deleted.path.parent)
    sidecar_file.remove(deleted.path.parent, deleted.base_offset)
    deleted.path.unlink()


class LogStart:
    """The start of the log of these `segments`, whose growing end is `end`."""

    def __init__(self, name: LogName, segments: Segments, end: LogEnd) -> None:
        self._name = name
        self._segments = segments
        self._end = end

    def expire_job(self, now_ms: int, *, up_to_offset: int | None, erase: Erase) -> ExpireJob | None:
        """Return what deletes the segments that have expired, None when none has. Raises `FolderFault`, `AppendFailed`."""
        gone = expired(
            [segment.facts() for segment in self._segments],
            now_ms=now_ms,
            retention_ms=self._end.config.retention_ms,
            retention_bytes=self._end.config.retention_bytes,
            up_to_offset=up_to_offset,
        )
        if not gone:
            return None
        if len(gone) == len(self._segments):
            self._end.begin_segment(self._segments.active.end_offset, 0, now_ms)
        try:
            work = ExpireWork(up_to_offset=gone[-1].end_offset, entries=self._end.entries_work())
        except OSError as error:
            raise self._name.fault(error) from error
        return LogJob(work, done=partial(self._expire_done, erase), failed=self._expire_failed)

    def _expire_done(self, erase: Erase, work: ExpireWork) -> list[DeletedSegment]:
        if work.entries is not None:
            self._end.flush_done(work.entries)
        return self._drop(sum(segment.end_offset <= work.up_to_offset for segment in list(self._segments)[:-1]), erase)

    def _expire_failed(self, work: ExpireWork, error: OSError) -> LogError:
        return self._name.fault(error)  # Nothing else to do: the segments are still there.

    def start_job(self, offset: int, now_ms: int, *, erase: Erase) -> StartJob | None:
        """Return what makes the log start at `offset`, None when it starts there or later already.

        Raises `OffsetOutOfRange`, `FolderFault`, `LogUnusable`, `AppendFailed`.
        """
        if offset > self._segments.active.end_offset:
            raise self._name.out_of_range(offset, self._segments.start_offset, self._segments.active.end_offset)
        if offset <= self._segments.start_offset:
            return None
        if self._end.failure is not None:
            raise self._end.failure
        active = self._segments.active
        if offset == active.end_offset and active.size_bytes:
            self._end.begin_segment(offset, 0, now_ms)  # Everything goes: the job enters on disk what stays in its place.
        try:
            flush = self._end.flush_job() if offset > self._end.flushed_offset else None
            needed = self._end.entries_work() if flush is None else flush.work
            work = StartWork(offset=offset, folder=self._name.folder, flush=needed)
        except OSError as error:
            raise self._name.fault(error) from error
        return LogJob(work, done=partial(self._start_done, erase), failed=self._start_failed)

    def _start_done(self, erase: Erase, work: StartWork) -> list[DeletedSegment]:
        if work.flush is not None:
            self._end.flush_done(work.flush)
        self._segments.start_offset = max(self._segments.start_offset, work.offset)
        return self._drop(min(self._segments.count_before(work.offset), len(self._segments) - 1), erase)

    def _start_failed(self, work: StartWork, error: OSError) -> LogError:
        """The log's start stays where it was."""
        if work.flush is not None and work.flush_failed:
            return self._end.flush_failed(work.flush, error)
        return self._name.fault(error)

    def _drop(self, count: int, erase: Erase) -> list[DeletedSegment]:
        """Delete the `count` oldest segments, and never the active one. Return them, oldest first.

        Each file is renamed here and given to `erase`, which may pass it to another thread. The next start removes what a crash
        leaves of them. Raises `FolderFault`.
        """
        deleted: list[DeletedSegment] = []
        try:
            for _ in range(count):
                deleted.append(self._segments.drop_first())
                erase(deleted[-1])
        except OSError as error:
            raise self._name.fault(error) from error
        finally:
            self._end.start_moved(self._segments.start_offset)
        return deleted
