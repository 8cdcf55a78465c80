"""The old end of a log: lets segments go whose time has come, or that DeleteRecords took, and moves the log start.

In two steps, so that nobody waits for the disk on the log's thread: a job that runs anywhere, then what is done with its outcome.
Decides only what `retention.expired` does not. Invariant: what stays is on disk before what comes before it goes.
"""

from collections.abc import Callable

from . import folder as folders
from .errors import FolderFault, LogUnusable
from .jobs.expire_job import ExpireJob
from .jobs.start_job import StartJob
from .log_end import LogEnd
from .log_name import LogName
from .retention import expired
from .segment import sidecar_file
from .segments import DeletedSegment, Segments


def erase_now(deleted: DeletedSegment) -> None:
    """Delete the file and its sidecars on this thread, waiting for the disk. Raises OSError."""
    folders.sync(deleted.path.parent)
    sidecar_file.remove(deleted.path.parent, deleted.base_offset)
    deleted.path.unlink()


class LogStart:
    """The start of the log that `segments` make, whose growing end is `end`."""

    def __init__(self, name: LogName, segments: Segments, end: LogEnd) -> None:
        self._name = name
        self._segments = segments
        self._end = end

    def expire(
        self, now_ms: int, *, up_to_offset: int | None = None, erase: Callable[[DeletedSegment], None] = erase_now
    ) -> list[DeletedSegment]:
        """Delete the segments whose time has come and return them, oldest first (`retention.expired` decides).

        Waits for the disk on this thread (`expire_job` for another). The active segment is closed first when it is among them, so
        the log end stays, as an empty segment. Readers that hold slices read on. Raises `FolderFault`, `AppendFailed`.
        """
        job = self.expire_job(now_ms, up_to_offset=up_to_offset)
        if job is None:
            return []
        try:
            job.run()
        except OSError as error:
            raise self._name.fault(error) from error
        return self.expire_done(job, erase=erase)

    def expire_job(self, now_ms: int, *, up_to_offset: int | None = None) -> ExpireJob | None:
        """Return what must be on disk before the segments go whose time has come, None when none has to go.

        Run it on any thread, then call `expire_done` on the log's own; when it fails nothing need be done. Raises as `expire`.
        """
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
            return ExpireJob(up_to_offset=gone[-1].end_offset, entries=self._end.entries_job())
        except OSError as error:
            raise self._name.fault(error) from error

    def expire_done(self, job: ExpireJob, *, erase: Callable[[DeletedSegment], None] = erase_now) -> list[DeletedSegment]:
        """Let the segments of `job`, which has run, go; return them, oldest first.

        Each file is renamed here and handed to `erase`, which may pass it to another thread; what a crash leaves of them is
        removed at opening. Raises `FolderFault`.
        """
        if job.entries is not None:
            self._end.flush_done(job.entries)
        return self._drop(sum(segment.end_offset <= job.up_to_offset for segment in list(self._segments)[:-1]), erase)

    def advance(self, offset: int, now_ms: int, *, erase: Callable[[DeletedSegment], None] = erase_now) -> list[DeletedSegment]:
        """Let the log start at `offset`, which may be in the middle of a segment or a batch; return the segments that went.

        Durable when it returns; waits for the disk on this thread (`start_job` for another). A start that is there or past is
        left as it is. Raises `OffsetOutOfRange` beyond the log end, `FolderFault`, `LogUnusable`, `AppendFailed`.
        """
        job = self.start_job(offset, now_ms)
        if job is None:
            return []
        try:
            job.run()
        except OSError as error:
            raise self.start_failed(job, error) from error
        return self.start_done(job, erase=erase)

    def start_job(self, offset: int, now_ms: int) -> StartJob | None:
        """Return what puts `offset` on disk as the log's start, None when it starts there or later already.

        Run it on any thread, then call `start_done` or `start_failed` on the log's own. Raises `OffsetOutOfRange`, `FolderFault`,
        `LogUnusable`, `AppendFailed`.
        """
        if offset > self._segments.active.end_offset:
            raise self._name.out_of_range(offset, self._segments.start_offset, self._segments.active.end_offset)
        if offset <= self._segments.start_offset:
            return None
        if self._end.failure is not None:
            raise self._end.failure
        active = self._segments.active
        if offset == active.end_offset and active.size_bytes:
            self._end.begin_segment(offset, 0, now_ms)  # All goes: the job enters on disk what stays in its place.
        try:
            flush = self._end.flush_job() if offset > self._end.flushed_offset else self._end.entries_job()
            return StartJob(offset=offset, folder=self._name.folder, flush=flush)
        except OSError as error:
            raise self._name.fault(error) from error

    def start_done(self, job: StartJob, *, erase: Callable[[DeletedSegment], None] = erase_now) -> list[DeletedSegment]:
        """Let the log start where `job`, which has run, says; return the segments that went, as `expire_done` does."""
        if job.flush is not None:
            self._end.flush_done(job.flush)
        self._segments.start_offset = max(self._segments.start_offset, job.offset)
        return self._drop(min(self._segments.count_before(job.offset), len(self._segments) - 1), erase)

    def start_failed(self, job: StartJob, error: OSError) -> LogUnusable | FolderFault:
        """Take note that `job` failed, the log's start being where it was, and return the error to tell."""
        return self._end.flush_failed(error) if job.flush_failed else self._name.fault(error)

    def _drop(self, count: int, erase: Callable[[DeletedSegment], None]) -> list[DeletedSegment]:
        """Delete the `count` oldest segments, the active one not among them."""
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
