"""Keeps reads that wait for a disk off the loop: a fetch of data that is not in the page cache is put aside while a thread reads
it in, then answered by sendfile as ever. Produces and other fetches go on meanwhile.

Lives on the loop thread; threads run only `page_cache.bring`. Each fetch that is put aside has one job, so jobs are bounded by
connections; the queue's own bound is lower, and a fetch that finds it full is answered at once: the loop waits then, as it would
without all this. A reader that goes on where it stopped finds the next stretch read ahead of it."""

from collections.abc import Callable, Sequence

from ...runtime.logs import get_logger
from ..event_loop.deferred_response import Slice
from ..event_loop.loop import Loop
from ..event_loop.rate_limited_log import RateLimitedLog
from ..event_loop.worker import Worker
from . import page_cache

log = get_logger(__name__)

THREADS = 2
MOST_WAITING = 1_000
AHEAD_BYTES = 2 * 1024 * 1024
"""Read ahead of a cold reader at a time: 1 ms of a fast disk, 15 ms of a slow one, which others may have to wait."""
MOST_ROWS = 1_000


class ColdReads:
    """Asked by the fetch handler before it reads."""

    def __init__(self, loop: Loop) -> None:
        self._cache = page_cache.PageCache()
        self._worker = Worker("cold-reads", loop.post, capacity=MOST_WAITING, threads=THREADS)
        self._log = RateLimitedLog(log, lambda: loop.now_ms)
        self._rows: dict[int, int] = {}
        """Who reads cold data in a row: descriptor and how far it is read ahead. One that is used again only guesses wrong."""
        self.count = 0
        """Fetches put aside; for metrics."""
        self.bytes = 0

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        self._worker.stop()

    def is_cold(self, stretch: Slice | None) -> bool:
        """Return whether reading `stretch` would wait for a disk. Hot: once a fetch."""
        if stretch is None:
            return False
        if not self._cache.holds(stretch):
            return True
        if self._rows:
            self._read_ahead(stretch)
        return False

    def copy(self, stretch: Slice) -> bytes | None:
        """Return the bytes of `stretch`, None when reading them would wait for a disk. Hot: once a small fetch."""
        copied = self._cache.copy(stretch)
        if copied is not None and self._rows:
            self._read_ahead(stretch)
        return copied

    def bring(self, stretches: Sequence[Slice], done: Callable[[], None]) -> bool:
        """Have the stretches read in, then call `done` on the loop, whatever came of it. Return False when too many wait."""

        def job() -> None:
            for stretch in stretches:
                page_cache.bring(stretch, stretch.position, len(stretch))

        def failed(error: Exception) -> None:
            # The fetch itself meets the same fault and answers it.
            self._log.warning("cold_read_failed", error=str(error))
            done()

        if not self._worker.submit(job, lambda _: done(), failed):
            self._log.warning("cold_reads_full", waiting=MOST_WAITING)
            return False
        self.count += 1
        if len(self._rows) + len(stretches) > MOST_ROWS:
            self._rows.clear()
        for stretch in stretches:
            self.bytes += len(stretch)
            self._go_on(stretch, stretch.position + len(stretch))
        return True

    def _read_ahead(self, stretch: Slice) -> None:
        ahead_to = self._rows.get(stretch.fd)
        if ahead_to is None:
            return
        end = stretch.position + len(stretch)
        if not ahead_to - 2 * AHEAD_BYTES < end <= ahead_to:
            del self._rows[stretch.fd]
        elif end + AHEAD_BYTES // 2 > ahead_to:
            self._go_on(stretch, ahead_to)

    def _go_on(self, stretch: Slice, position: int) -> None:
        """Have what follows `position` in the file of `stretch` read in."""
        self._rows[stretch.fd] = position
        if self._worker.submit(lambda: page_cache.bring(stretch, position, AHEAD_BYTES), _nothing, _nothing):
            self._rows[stretch.fd] += AHEAD_BYTES


def _nothing(_: object) -> None:
    """Whether a read-ahead helped shows in the next fetch."""
