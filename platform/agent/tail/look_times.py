"""When each file is checked next. Pure: a queue by time.

A busy file is checked often, an idle one seldom: 10,000 idle files cost 1,000 checks a second.
"""

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

SOON_MS = 200
IDLE_MS = 10_000
"""The longest pause between two looks at a file."""

T = TypeVar("T", bound=Hashable)


def pause_ms(idle_ms: int) -> int:
    """Return how long to wait before the next look at a file that did not change for `idle_ms`."""
    return min(IDLE_MS, max(SOON_MS, idle_ms // 2))


class LookTimes(Generic[T]):
    """Files by the time of their next look, in ms of a monotonic clock."""

    def __init__(self) -> None:
        self._due: dict[T, int] = {}
        self._queue: list[tuple[int, int, T]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._due)

    def set(self, item: T, due_ms: int) -> None:
        """Look at the item at this time, instead of at an earlier arrangement."""
        self._due[item] = due_ms
        self._count += 1
        heapq.heappush(self._queue, (due_ms, self._count, item))
        if len(self._queue) > 4 * len(self._due) + 16:
            self._queue = [entry for entry in self._queue if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._queue)

    def remove(self, item: T) -> None:
        self._due.pop(item, None)

    def take_due(self, now_ms: int) -> Iterator[T]:
        """Yield the items that are due; each has to be `set` again."""
        while self._queue and self._queue[0][0] <= now_ms:
            due_ms, _, item = heapq.heappop(self._queue)
            if self._due.get(item) == due_ms:
                del self._due[item]
                yield item
