"""Decides which partitions may be fetched now, by the orders: not those that are paused, nor those whose bytes a second are used
up.

Pure but for its own memory: time comes in as a number. A batch is copied whole, so a bound holds on average over some seconds:
what was fetched too much is waited for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...client.fetch.fetched import TopicPartition
from .orders import ALL, Orders

LEAST_FETCH_BYTES = 16 * 1024
FETCHES_PER_S = 4
"""Into which a throttled second is divided at least, so that the bound is felt as a rate and not as bursts."""


@dataclass(slots=True)
class _Bucket:
    bytes_per_s: int
    balance: float
    at_ms: int

    def fill(self, now_ms: int) -> None:
        # No more than a second's worth is saved up.
        earned = self.bytes_per_s * max(0, now_ms - self.at_ms) / 1000
        self.balance, self.at_ms = min(float(self.bytes_per_s), self.balance + earned), now_ms


class Governor:
    """Used by the forwarder's thread; any thread may replace `orders` and read `waiting`."""

    def __init__(self) -> None:
        self.orders = Orders()
        self.waiting: frozenset[TopicPartition] = frozenset()
        """Partitions that wait for their bytes, at the last look."""
        self._buckets: dict[str, _Bucket] = {}

    def admitted(self, wanted: Mapping[TopicPartition, int], now_ms: int) -> Mapping[TopicPartition, int]:
        """Return those of the partitions (with their offsets) that may be fetched now."""
        orders = self.orders
        if not orders.paused and not orders.bytes_per_s and not self._buckets:
            self.waiting = frozenset()
            return wanted
        for name, rate in orders.bytes_per_s.items():
            bucket = self._buckets.get(name)
            if bucket is None or bucket.bytes_per_s != rate:
                self._buckets[name] = _Bucket(rate, float(rate) / FETCHES_PER_S, now_ms)
            else:
                bucket.fill(now_ms)
        for name in self._buckets.keys() - orders.bytes_per_s.keys():
            del self._buckets[name]
        free = {name: offset for name, offset in wanted.items() if orders.pause_of(name.topic) is None}
        found = {name: offset for name, offset in free.items() if self._has_bytes(name.topic)}
        self.waiting = frozenset(free.keys() - found.keys())
        return found

    def fetch_bytes(self, names: Iterable[TopicPartition], most: int) -> int:
        """Return how many bytes one fetch of these partitions may bring."""
        if not self._buckets:
            return most
        rates = [one.bytes_per_s for key in {ALL, *(name.topic for name in names)} if (one := self._buckets.get(key)) is not None]
        return min([most, *(max(LEAST_FETCH_BYTES, rate // FETCHES_PER_S) for rate in rates)])

    def fetched(self, sizes: Mapping[TopicPartition, int]) -> None:
        """Take into account what came of the partitions."""
        for name, size_bytes in sizes.items():
            for key in (ALL, name.topic):
                if (bucket := self._buckets.get(key)) is not None:
                    bucket.balance -= size_bytes

    @property
    def holds(self) -> bool:
        """Return whether anything is paused, or waits for its bytes."""
        return bool(self.orders.paused or self.waiting)

    def held(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """Return those of the partitions that are not copied now because an operator wishes so, with the words for it."""
        orders, waiting = self.orders, self.waiting
        found = {}
        for name in names:
            pause = orders.pause_of(name.topic)
            if pause is not None:
                found[name] = pause.words()
            elif name in waiting:
                rates = [orders.bytes_per_s[key] for key in (ALL, name.topic) if key in orders.bytes_per_s]
                found[name] = f"throttled to {min(rates, default=0)} bytes/s"
        return found

    def _has_bytes(self, topic: str) -> bool:
        return all(self._buckets[key].balance > 0 for key in (ALL, topic) if key in self._buckets)
