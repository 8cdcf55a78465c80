"""A thread that reads one cluster again and again. Knows when to try again, not what is read."""

import threading
from abc import ABC, abstractmethod

from ....client.connection.cluster import Cluster
from ....client.errors import OffsetOutOfRange
from ....errors import HeadraceError
from ....runtime.backoff import Backoff
from ....runtime.lifecycle import StopSignal

BACKOFF = Backoff(first_ms=100, longest_ms=2_000)


class ReadingThread(ABC):
    """Calls `_read_once` until it is stopped. After a failure it calls `_begin_again`, waits, and continues."""

    failure: str | None = None
    """Why the cluster cannot be read now; None while it can."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stop = StopSignal()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._cluster.close()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        attempt = 0
        while not self._stop.is_set():
            try:
                self._read_once()
                if self.failure is not None:
                    self._tell_recovered()
                self.failure, attempt = None, 0
            except OffsetOutOfRange as error:
                self._out_of_range(error)
            except Exception as error:  # a thread that died would look like a tier that lost everything
                if self._stop.is_set():
                    return
                if attempt == 0:
                    self._tell_failed(error, is_fault=not isinstance(error, HeadraceError))
                self.failure = str(error)
                self._begin_again()
                self._stop.wait(BACKOFF.wait_ms(attempt))
                attempt += 1

    @abstractmethod
    def _read_once(self) -> None:
        """Read what there is now and hand it on."""

    @abstractmethod
    def _begin_again(self) -> None:
        """Forget what the next reading has to find out again."""

    @abstractmethod
    def _out_of_range(self, error: OffsetOutOfRange) -> None:
        """Choose where to continue in a partition whose log does not hold the offset."""

    @abstractmethod
    def _tell_recovered(self) -> None:
        """Log that the cluster can be read again."""

    @abstractmethod
    def _tell_failed(self, error: Exception, *, is_fault: bool) -> None:
        """Log the first of several failures; with a traceback when it `is_fault` of our own."""
