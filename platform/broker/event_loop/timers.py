"""The loop's deadlines, in a heap. Pure: readings of the clock go in as values, functions that are due come out."""

import heapq
from collections.abc import Callable


class Timers:
    """Functions to call at a monotonic time. Owners keep few entries: one a connection, one a periodic task."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._entry_number = 0

    def __len__(self) -> int:
        return len(self._heap)

    def call_at(self, at_ms: int, function: Callable[[], None]) -> None:
        """Add `function`: it is due at `at_ms`."""
        self._entry_number += 1
        heapq.heappush(self._heap, (at_ms, self._entry_number, function))

    def wait_ms(self, now_ms: int, longest_ms: int) -> int:
        """Return how long nothing will be due, from 0 to `longest_ms`."""
        if not self._heap:
            return longest_ms
        return min(longest_ms, max(0, self._heap[0][0] - now_ms))

    def due(self, now_ms: int) -> list[Callable[[], None]]:
        """Take out and return what is due, earliest first."""
        functions = []
        while self._heap and self._heap[0][0] <= now_ms:
            functions.append(heapq.heappop(self._heap)[2])
        return functions
