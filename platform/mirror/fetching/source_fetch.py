"""One fetch of all partitions that are due: how much it asks for, who comes first, what it brought.

A fetch is asked for and received later, so that the source works meanwhile. Decides nothing about offsets.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ...client.connection.cluster import Cluster
from ...client.fetch.fetched import FetchedPartition, TopicPartition
from ...client.fetch.fetcher import Fetcher, PendingFetch
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

    def __init__(self, source: Cluster, limits: Limits, governor: Governor, clock: Clock) -> None:
        self.fetcher = Fetcher(source)
        self.wanted: Mapping[TopicPartition, int] = {}
        """Of the last fetch: partition → offset."""
        self._size = FetchSize(limits.least_partition_bytes, limits.most_partition_bytes, limits.fetch_bytes)
        self._governor = governor
        self._clock = clock
        self._pending: PendingFetch | None = None
        self._fetches = 0
        self._served: dict[TopicPartition, int] = {}
        """The number of the last fetch that brought something of a partition."""

    def ask(self, due: Mapping[TopicPartition, int], max_wait_ms: int) -> None:
        """Ask for those of the partitions that the governor admits. Raises ClientError."""
        self.wanted, self._pending = {}, None
        wanted = self._governor.admitted(due, self._clock.monotonic_ms())
        if not wanted:
            return
        # Those that were not served for longest first: where all have something, not all fit into one fetch.
        self.wanted = dict(sorted(wanted.items(), key=lambda one: self._served.get(one[0], 0)))
        self.fetcher.max_bytes = self._governor.fetch_bytes(wanted, self._size.bytes_of_all)
        self.fetcher.partition_max_bytes = min(self.fetcher.max_bytes, self._size.bytes)
        self.fetcher.max_wait_ms = max_wait_ms
        self._pending = self.fetcher.begin(self.wanted)

    def receive(self) -> list[FetchedPartition]:
        """Wait for what was asked for, and return it. Raises as `Fetcher.fetch`."""
        pending, self._pending = self._pending, None
        if pending is None:
            return []
        began_ms = self._clock.monotonic_ms()
        fetched = self.fetcher.finish(pending)
        sizes = {TopicPartition(one.topic, one.partition): sum(header.size_bytes for header, _ in one.batches) for one in fetched}
        self._governor.fetched(sizes)
        self._size.fetched(max(sizes.values(), default=0), sum(sizes.values()), self._clock.monotonic_ms() - began_ms)
        self._fetches += 1
        self._served |= {name: self._fetches for name, size_bytes in sizes.items() if size_bytes}
        return fetched

    def forget(self, name: TopicPartition) -> None:
        """The partition is gone."""
        self._served.pop(name, None)

    def close(self) -> None:
        """Close the connections, from any thread: a waiting fetch fails."""
        self.fetcher.close()
