"""The console's own numbers for `/metrics`: how long pages take, which failed, and what is open."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate

from ..runtime.monitoring.text_format import Histogram, Metric, one

ROLE = "console"
PREFIX = "headrace_console_"
BOUNDS_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, float("inf"))


class PageTimes:
    """How long each page took to be made. Any thread may note."""

    def __init__(self, pages: Iterable[str]) -> None:
        """`pages`: every address there is, so that the page of numbers is bounded."""
        self._lock = threading.Lock()
        self._counts: Mapping[str, list[int]] = {page: [0] * len(BOUNDS_S) for page in pages}
        self._sums_s = dict.fromkeys(self._counts, 0.0)
        self._failed = 0

    def note(self, page: str, took_s: float) -> None:
        with self._lock:
            self._counts[page][bisect_left(BOUNDS_S, took_s)] += 1
            self._sums_s[page] += took_s

    def failed(self) -> None:
        """Note a page that could not be made, through a fault of the console's own."""
        with self._lock:
            self._failed += 1

    def metrics(self, open_streams: Callable[[], int]) -> list[Metric]:
        """Return the numbers."""
        with self._lock:
            made = [
                ({"page": page}, Histogram(list(zip(BOUNDS_S, map(float, accumulate(counts)), strict=True)), self._sums_s[page]))
                for page, counts in self._counts.items()
            ]
            failed = self._failed
        return [
            Metric(PREFIX + "ready", "gauge", "1 while /readyz answers 200.", one(1)),
            Metric(PREFIX + "page_seconds", "histogram", "Time to make a page, by its address.", made),
            Metric(PREFIX + "failed_pages_total", "counter", "Pages that failed through a fault of the console.", one(failed)),
            Metric(PREFIX + "live_streams", "gauge", "Open streams of live messages.", one(open_streams())),
        ]
