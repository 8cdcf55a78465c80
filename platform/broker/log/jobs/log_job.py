"""Slow work of a log, and what the log does with its outcome.

The log's own thread makes a job. Any thread runs it. Then the log's thread calls `done` or `failed`, once. A job that is never
run changes nothing.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from ..errors import LogError


class Work(Protocol):
    """What runs on another thread."""

    def run(self) -> None: ...


W = TypeVar("W", bound=Work)
T = TypeVar("T")


class LogJob(Generic[W, T]):
    """`work` may be looked at before and after it runs; `T` is what the log returns when the work is done."""

    __slots__ = ("_done", "_failed", "work")

    def __init__(self, work: W, *, done: Callable[[W], T], failed: Callable[[W, OSError], LogError]) -> None:
        self.work = work
        self._done = done
        self._failed = failed

    def run(self) -> None:
        """Do the work. On any thread. Raises OSError."""
        self.work.run()

    def done(self) -> T:
        """Record in the log that `run` has returned. On the log's thread. Raises `LogError`."""
        return self._done(self.work)

    def failed(self, error: Exception) -> LogError:
        """Record in the log that `run` has raised `error`; return the error to report. On the log's thread."""
        return self._failed(self.work, error if isinstance(error, OSError) else OSError(0, str(error)))

    def run_to_end(self) -> T:
        """Do the work here, on the log's thread, and record it. Raises `LogError`."""
        try:
            self.run()
        except OSError as error:
            raise self.failed(error) from error
        return self.done()
