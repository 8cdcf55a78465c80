"""One fetch of all partitions that are due: how much it asks for, what it brought.

A fetch is asked for and received later, so that the source works meanwhile. Decides nothing about offsets.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ...client.connection.cluster import Cluster
from ...client.fetch.fetched import FetchedPartition, TopicPartition
from ...client.fetch.fetcher import Fetcher, PendingFetch
from ...client.fetch.wanted import Wanted
from ...runtime.clock import Clock
from ..control.governor import Governor
from . import fetch_size
from .fetch_size import FetchSize


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of what is held at a time."""

    fetch_bytes: int = 16 << 20
    least_partition_bytes: int = fetch_size.LEAST_BYTES
    most_partition_bytes: int = fetch_size.MOST_BYTES
    """The bytes of one partition in one fetch, and so in one append, unless a single batch is larger. How far the source is,
    decides between the two.
    """


class SourceFetch:
    """Used by the forwarder's thread; any thread may `close` it."""

    def __init__(
        self, source: Cluster, governor: Governor, clock: Clock, limits: Limits | None = None, *, is_read_committed: bool = False
    ) -> None:
        limits = limits or Limits()
        self.fetcher = Fetcher(source, is_read_committed=is_read_committed, leaves_out_idle=True)
        self.names: Mapping[TopicPartition, int] = {}
        """The partitions of the last fetch, for any thread that asks whether one is among them."""
        self._size = FetchSize(limits.least_partition_bytes, limits.most_partition_bytes, limits.fetch_bytes)
        self._governor = governor
        self._clock = clock
        self._pending: PendingFetch | None = None

    @property
    def is_asked(self) -> bool:
        """Return whether a fetch is on its way; `receive` returns what it brings."""
        return self._pending is not None

    def ask(self, due: Wanted, max_wait_ms: int) -> None:
        """Ask for those of the partitions that the governor admits. Costs as much as has changed, unless something is paused or
        throttled. Raises ClientError.
        """
        self._pending = None
        wanted = self.names = self._governor.admitted(due.offsets, self._clock.monotonic_ms())
        if not wanted:
            return
        self.fetcher.max_bytes = self._governor.fetch_bytes(wanted, self._size.bytes_of_all)
        self.fetcher.partition_max_bytes = min(self.fetcher.max_bytes, self._size.bytes)
        self.fetcher.max_wait_ms = max_wait_ms
        self._pending = self.fetcher.begin(due if wanted is due.offsets else wanted)

    def receive(self) -> list[FetchedPartition]:
        """Wait for what was asked for, and return it. Raises as `Fetcher.fetch`."""
        pending, self._pending = self._pending, None
        if pending is None:
            return []
        began_ms = self._clock.monotonic_ms()
        fetched = self.fetcher.finish(pending)
        sizes = {
            TopicPartition(one.topic, one.partition): sum(header.size_bytes for header, _ in one.batches)
            for one in fetched
            if one.batches
        }
        self._governor.fetched(sizes)
        self._size.fetched(max(sizes.values(), default=0), sum(sizes.values()), self._clock.monotonic_ms() - began_ms)
        return fetched

    def close(self) -> None:
        """Close the connections, from any thread: a waiting fetch fails."""
        self.fetcher.close()
