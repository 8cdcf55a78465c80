"""Which windows still have events under way, and so how far a logger has moved past. No clock: `now_ms` comes in.

A window may be called past only when nothing of it is under way and, for applications that log as things happen, when it is
older than events may be late. A replay moves past nothing until its end.
"""

import threading

from ..audit.model.windows import window_start_ms


class OpenWindows:
    """Counts events under way per window; from any thread."""

    def __init__(self, window_ms: int) -> None:
        self.window_ms = window_ms
        self._lock = threading.Lock()
        self._counts: dict[int, int] = {}

    def start_of(self, timestamp_ms: int) -> int:
        """Return the start of the window that the instant lies in."""
        return window_start_ms(timestamp_ms, self.window_ms)

    def enter(self, timestamp_ms: int) -> None:
        """An event of this time is taken in."""
        start = self.start_of(timestamp_ms)
        with self._lock:
            self._counts[start] = self._counts.get(start, 0) + 1

    def leave(self, timestamp_ms: int, count: int = 1) -> None:
        """`count` events of this window are acknowledged or counted as lost."""
        start = self.start_of(timestamp_ms)
        with self._lock:
            left = self._counts.get(start, 0) - count
            if left > 0:
                self._counts[start] = left
            else:
                self._counts.pop(start, None)

    def moved_past_ms(self, now_ms: int, lateness_ms: int | None) -> int | None:
        """Return the border up to which every window is over, None when none is known to be (a replay)."""
        if lateness_ms is None:
            return None
        border = self.start_of(max(0, now_ms - lateness_ms))
        with self._lock:
            return min(border, min(self._counts, default=border))
