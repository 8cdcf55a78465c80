"""What a signal handler or a finalizer logs while its thread is inside the logger: kept aside without a lock, put in order later.

A handler that interrupts the holder of a lock must not wait for that lock. `put` is one append to a deque, which nothing can
interrupt. `drain` runs later, on a thread that is inside nothing.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ...wire.quarantine_record import QuarantineRecord

MOST = 1_000
MOST_BYTES = 4 << 20
"""Items and bytes kept at most; what comes beyond is dropped and counted."""


class DeferredEvent(NamedTuple):
    """An event's body that was taken."""

    body: bytes
    timestamp_ms: int
    key: bytes | None


class DeferredLoss(NamedTuple):
    """Events that were refused to the caller, to be counted."""

    timestamp_ms: int
    name: str
    event_count: int


Item = DeferredEvent | DeferredLoss | QuarantineRecord


class Deferred:
    """A bounded queue; `put` from inside anything, the rest from any thread that is not."""

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self._draining = threading.RLock()
        self._is_draining: Callable[[], bool] = self._draining._is_owned  # type: ignore[attr-defined]
        """Whether the calling thread drains: what interrupts it there must not settle its item a second time."""
        self._overflowed = itertools.count()
        self._has_overflowed = False
        self._counted = 0
        """Of `_overflowed`: those that `drain` has reported, and its own looks."""

    def __len__(self) -> int:
        """Return how many events are kept."""
        return sum(isinstance(item, DeferredEvent) for item in list(self.items))

    def put(self, item: Item) -> bool:
        """Keep the item; return False if there is no room, then it is counted as an overflow."""
        if len(self.items) >= MOST or self._size_bytes() + _size_of(item) > MOST_BYTES:
            next(self._overflowed)
            self._has_overflowed = True
            return False
        self.items.append(item)
        return True

    def _size_bytes(self) -> int:
        return sum(map(_size_of, list(self.items)))

    def first_ms(self) -> int | None:
        """Return the lowest time of what is kept; None when nothing is."""
        return min((_time_of(item) for item in list(self.items)), default=None)

    def times(self) -> list[int]:
        """Return the times of the events that are kept."""
        return [item.timestamp_ms for item in list(self.items) if isinstance(item, DeferredEvent)]

    def drain(self, settle: Callable[[Item], None], overflow: Callable[[int], None]) -> None:
        """Settle each item, oldest first; tell how many did not fit since the last time. An item leaves when it is settled."""
        if self._is_draining() or not (self.items or self._has_overflowed):
            return
        with self._draining:
            while self.items:
                settle(self.items[0])
                self.items.popleft()
            self._has_overflowed = False
            dropped = next(self._overflowed) - self._counted
            self._counted += dropped + 1
        if dropped:
            overflow(dropped)


def _time_of(item: Item) -> int:
    return item.window_start_ms if isinstance(item, QuarantineRecord) else item.timestamp_ms


def _size_of(item: Item) -> int:
    match item:
        case DeferredEvent():
            return len(item.body) + len(item.key or b"")
        case QuarantineRecord():
            return len(item.payload)
        case _:
            return 0
