"""How a flush is carried out: the interface, and the plain way, on worker threads.

`kernel_flush.KernelFlush` is the other way. `machine.SystemMachine` picks one. The scheduler and the logs cannot tell which it
is, and one test suite runs over both (`tests/unit/broker/partitions/test_flushers.py`).
"""

from collections.abc import Callable
from typing import Any, Protocol

from ..event_loop.worker import Worker
from ..log import FlushJob

FLUSHES_AT_ONCE = 4
"""Of different logs. See `docs/decisions/0010`."""


class Flusher(Protocol):
    """Puts logs on disk without blocking the loop."""

    @property
    def most_at_once(self) -> int:
        """How many flushes may be under way at once."""
        ...

    def start(self) -> None:
        """Begin to carry out flushes."""
        ...

    def flush(self, job: FlushJob, done: Callable[[Any], None], failed: Callable[[Exception], None]) -> bool:
        """Carry out `job`, then call `done(None)` or `failed(error)` on the loop. Return False when too much waits already, and
        do nothing.
        """
        ...

    def stop(self) -> None:
        """Wait, within a bound, for flushes under way. After the loop has ended: no `done` or `failed` is called any more."""
        ...


class ThreadFlush:
    """The plain way: a worker's threads call fdatasync(2)."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @property
    def most_at_once(self) -> int:
        return self._worker.threads

    def start(self) -> None:
        self._worker.start()

    def flush(self, job: FlushJob, done: Callable[[Any], None], failed: Callable[[Exception], None]) -> bool:
        return self._worker.submit(job.run, done, failed)

    def stop(self) -> None:
        self._worker.stop()
