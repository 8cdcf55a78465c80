"""Time as a value that is handed in. Instants are integer milliseconds since the epoch, durations integer milliseconds."""

import time
from typing import Protocol


class Clock(Protocol):
    """The only source of time of a process, so that a test can replace it."""

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since the epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Return a reading that never goes back. Only the difference of two readings has a meaning."""
        ...

    def sleep(self, for_ms: int) -> None:
        """Return after `for_ms` milliseconds."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def sleep(self, for_ms: int) -> None:
        time.sleep(for_ms / 1000)


class ManualClock:
    """A clock that only `advance` and `sleep` move, for tests."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Move both readings on by `by_ms` milliseconds."""
        self._now_ms += by_ms

    def sleep(self, for_ms: int) -> None:
        self.advance(for_ms)
