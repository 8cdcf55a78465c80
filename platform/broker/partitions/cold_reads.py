"""Keeps reads that wait for a disk off the loop. A fetch of data that is not in the page cache is parked while a thread reads the
data into the cache; then it is answered by sendfile as usual. Produce requests and other fetches continue meanwhile.

Lives on the loop thread; threads run only `page_cache.prefetch`. Each parked fetch has one job, so connections bound the jobs.
The queue's own bound is lower: a fetch that finds it full is answered without parking, and the loop waits for the disk. For a
reader that continues where it stopped, the next region is read ahead."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ...runtime.logs import get_logger
from ...runtime.rate_limited_log import RateLimitedLog
from ..event_loop.deferred_response import Region
from ..event_loop.loop import Loop
from ..event_loop.worker import Worker
from . import page_cache

log = get_logger(__name__)

THREADS = 2
MOST_WAITING = 1_000
AHEAD_BYTES = 2 * 1024 * 1024
"""Read ahead of a cold reader at a time. It takes 1 ms of a fast disk, 15 ms of a slow one; other reads may wait so long."""
MOST_SEQUENTIAL_READS = 1_000


class Cache(Protocol):
    """The part of `page_cache.PageCache` that is used here."""

    def holds(self, region: Region) -> bool: ...

    def copy(self, region: Region) -> bytes | None: ...


class ColdReads:
    """The fetch handler calls it before it reads."""

    def __init__(self, loop: Loop, worker: Worker | None = None, cache: Cache | None = None) -> None:
        """`worker`, of `THREADS` threads and room for `MOST_WAITING` jobs, reads; `cache` knows what is there."""
        self._cache: Cache = page_cache.PageCache() if cache is None else cache
        self._worker = worker or Worker("cold-reads", loop.post, capacity=MOST_WAITING, threads=THREADS)
        self._log = RateLimitedLog(log, lambda: loop.now_ms)
        self._ahead_to: dict[int, int] = {}
        """Sequential reads of cold data: descriptor, and the position up to which it is read ahead. When the system gives a
        descriptor to another file, the entry only causes a useless read."""
        self.count = 0
        """Fetches parked for a cold read; for metrics."""
        self.bytes = 0

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        self._worker.stop()

    def is_cold(self, region: Region | None) -> bool:
        """Return whether reading `region` would wait for a disk. Hot: once a fetch."""
        if region is None:
            return False
        if not self._cache.holds(region):
            return True
        if self._ahead_to:
            self._read_ahead(region)
        return False

    def copy(self, region: Region) -> bytes | None:
        """Return the bytes of `region`, None when reading them would wait for a disk. Hot: once a small fetch."""
        copied = self._cache.copy(region)
        if copied is not None and self._ahead_to:
            self._read_ahead(region)
        return copied

    def prefetch(self, regions: Sequence[Region], done: Callable[[], None]) -> bool:
        """Read the regions into the page cache, then call `done` on the loop, even after a fault. Return False when too many
        wait: nothing will happen then.
        """

        def job() -> None:
            for region in regions:
                page_cache.prefetch(region, region.position, len(region))

        def failed(error: Exception) -> None:
            # The fetch itself will meet the same fault and answer it.
            self._log.warning("cold_read_failed", error=str(error))
            done()

        if not self._worker.submit(job, lambda _: done(), failed):
            self._log.warning("cold_reads_full", waiting=MOST_WAITING)
            return False
        self.count += 1
        if len(self._ahead_to) + len(regions) > MOST_SEQUENTIAL_READS:
            self._ahead_to.clear()
        for region in regions:
            self.bytes += len(region)
            self._go_on(region, region.position + len(region))
        return True

    def _read_ahead(self, region: Region) -> None:
        ahead_to = self._ahead_to.get(region.fd)
        if ahead_to is None:
            return
        end = region.position + len(region)
        if not ahead_to - 2 * AHEAD_BYTES < end <= ahead_to:
            del self._ahead_to[region.fd]
        elif end + AHEAD_BYTES // 2 > ahead_to:
            self._go_on(region, ahead_to)

    def _go_on(self, region: Region, position: int) -> None:
        """Read what follows `position` in the file of `region` into the page cache."""
        self._ahead_to[region.fd] = position
        if self._worker.submit(lambda: page_cache.prefetch(region, position, AHEAD_BYTES), _nothing, _nothing):
            self._ahead_to[region.fd] += AHEAD_BYTES


def _nothing(_: object) -> None:
    """The outcome of a read-ahead does not matter: the next fetch looks at the cache itself."""
