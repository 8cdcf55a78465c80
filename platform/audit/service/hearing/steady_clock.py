"""The audit's time: it never goes back, whatever the host's clock does, and not over a restart either.

Every deadline compares moments that the audit noted itself. By the wall clock, a host that was two hours ahead and was put
right left all windows OPEN for two hours. So time is the later one of the wall clock and of what the store holds, at the start;
from there on the monotonic clock adds to it.
"""

from ....runtime.clock import Clock


class SteadyClock:
    """A `Clock` that only continues. Any thread may ask; `not_before` is called while the books are loaded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()

    def now_ms(self) -> int:
        return self._ahead_ms + self._clock.monotonic_ms()

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def sleep(self, for_ms: int) -> None:
        self._clock.sleep(for_ms)

    def not_before(self, at_ms: int) -> None:
        """Go on at `at_ms`, where it is not that late yet."""
        self._ahead_ms += max(0, at_ms - self.now_ms())


def steady(clock: Clock) -> SteadyClock:
    """Return the clock, made steady where it is not."""
    return clock if isinstance(clock, SteadyClock) else SteadyClock(clock)
