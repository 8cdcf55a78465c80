"""Which windows of event time a logger holds, and how `log` waits until the audit topic has acknowledged that.

An event is taken only into a window of the last acknowledged `holds`. The current window is always held, the next one from two
minutes before it begins. For another one (a late event, a replay, a clock that jumped, a forked child's first event) the
reporter is woken, and asked for 2, 4, … 64 windows ahead as a replay continues. A window leaves `holds` with the report that
tells the end of its last record.

Everything here happens under the producer's lock: an event enters a window, or the window is released, never both.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from ...audit.model.messages import MAX_HOLDS, Hold
from ...client.errors import Unpromised
from ...runtime.clock import Clock

MOST_WAIT_MS = 1_000
"""The longest that one event waits for a promise."""
NEXT_FROM_MS = 120_000
MOST_AHEAD = 64
KEEP_AHEAD_MS = 10_000
"""How long windows that were asked for ahead stay held though no event comes for them."""


class Promises:
    """The held windows of one logger, by number (event time // window width)."""

    def __init__(
        self,
        mutex: threading.RLock,
        clock: Clock,
        *,
        topic: str,
        window_ms: int,
        is_live: bool,
        only_between_ms: tuple[int, int] | None,
        is_strict: bool,
        wake: Callable[[], None],
    ) -> None:
        """`mutex`: the producer's. `is_live`: events come as they happen, so the current window is held; a replay holds what it
        asks for. `wake` has the reporter say what is held, at once.
        """
        self._lock = threading.Condition(mutex)
        self._clock = clock
        self._topic = topic
        self._window_ms = window_ms
        self._is_live = is_live
        first, end = only_between_ms or (0, None)
        self._first, self._end = first // window_ms, None if end is None else -(-end // window_ms)
        self._is_strict = is_strict
        self._wake = wake
        self._acknowledged: set[int] = set()
        self._composed: set[int] = set()
        self._entered: set[int] = set()
        """Windows in which a batch was opened since the last report: one more is not far."""
        self._waiting = Counter[int]()
        """Windows whose promise threads wait for."""
        self._ahead = (0, 0)
        self._ahead_until_ms = 0
        self._has_asked = False
        """The reporter was woken and has not looked yet."""
        self._is_failing = False
        self._is_away = False
        """A wait has ended without the acknowledgement: nothing waits again before there is one."""
        self.unpromised_count = 0
        """Events that were taken though the audit had not acknowledged that their window is held."""

    # -- by who logs, under the lock -------------------------------------------------------------------------------------

    def admit(self, timestamp_ms: int, max_block_ms: int) -> bool:
        """Return whether an event of this time is promised to be reported of; False: it may be taken, and counts as unpromised.

        Waits for the acknowledgement at most `max_block_ms`, and MOST_WAIT_MS. -1: the event was admitted before. Raises
        `Unpromised` in its place where the logger is strict. Hot: once per batch; once per event that has a key.
        """
        window = timestamp_ms // self._window_ms
        if window in self._acknowledged:
            self._entered.add(window)
            return True
        if max_block_ms < 0 or self._await(window, max_block_ms):
            return True
        if self._is_strict:
            raise Unpromised(self._topic, window * self._window_ms)
        return False

    def took_unpromised(self) -> None:
        self.unpromised_count += 1

    def is_promised(self, window: int) -> bool:
        return window in self._acknowledged

    def _await(self, window: int, max_block_ms: int) -> bool:
        self.ask(window)
        if max_block_ms == 0 or self._is_away:
            return False
        self._waiting[window] += 1
        try:
            if self._lock.wait_for(lambda: window in self._acknowledged, min(max_block_ms, MOST_WAIT_MS) / 1000):
                return True
        finally:
            self._waiting[window] -= 1
            if not self._waiting[window]:
                del self._waiting[window]
        self._is_away = True
        return False

    def ask(self, window: int) -> None:
        """Have the window held."""
        start, end = self._ahead
        if window not in self._current():
            if not start <= window < end:
                goes_on = start < end <= window < end + MOST_AHEAD
                count = min(2 * (end - start), MOST_AHEAD) if goes_on else 2
                self._ahead = (window, window + count)
            self._ahead_until_ms = self._clock.monotonic_ms() + KEEP_AHEAD_MS
        if not self._has_asked and not self._is_failing:
            self._has_asked = True
            self._wake()

    def may_wait_for(self, timestamp_ms: int) -> bool:
        """Return whether a wait before an event of this time may help: its window is asked for, and not acknowledged yet."""
        with self._lock:
            window = timestamp_ms // self._window_ms
            if window in self._acknowledged or self._is_away:
                return False
            self.ask(window)
            return True

    # -- by the reporter -------------------------------------------------------------------------------------------------

    def compose(self, under_way: Mapping[int, int]) -> tuple[Hold, ...]:
        """Return what the next report says is held; the caller has the lock. No event enters any other window from now on.

        `under_way`: window → records that were taken and have not ended. What has ended is in the next report.
        """
        wanted = {*under_way, *self._entered, *self._waiting, *self._current()}
        if not self._entered.isdisjoint(range(*self._ahead)):
            self._ahead_until_ms = self._clock.monotonic_ms() + KEEP_AHEAD_MS
        if self._clock.monotonic_ms() < self._ahead_until_ms:
            wanted.update(range(*self._ahead))
        elif self._ahead != (0, 0):
            self._ahead = (0, 0)
        wanted = {window for window in wanted if window in under_way or self._is_announced(window)}
        self._acknowledged &= wanted
        self._composed = wanted
        self._entered.clear()
        self._has_asked = False
        return holds_of(wanted, under_way, self._window_ms)

    def reported(self, is_acknowledged: bool) -> None:
        """Learn that the audit topic has what was composed last; else that it is away. Then nobody wakes the reporter: it tries
        again by itself.
        """
        with self._lock:
            if not is_acknowledged:
                self._is_failing = True
                return
            self._acknowledged = set(self._composed)
            self._is_away = self._is_failing = False
            self._lock.notify_all()

    def give_up_waiting(self) -> None:
        """Note that one call has already waited without success, so that `log` need not wait."""
        self._is_away = self._is_failing = True

    def _current(self) -> tuple[int, ...]:
        if not self._is_live:
            return ()
        now_ms = self._clock.now_ms()
        window = now_ms // self._window_ms
        return (window, window + 1) if (now_ms + NEXT_FROM_MS) // self._window_ms > window else (window,)

    def _is_announced(self, window: int) -> bool:
        """Return whether the logger takes events of the window at all, by the times that it announced."""
        return self._first <= window and (self._end is None or window < self._end)


def holds_of(windows: Iterable[int], under_way: Mapping[int, int], window_ms: int) -> tuple[Hold, ...]:
    """Return the windows as ranges of event time, at most MAX_HOLDS: beyond it, those with the least between them are joined."""
    ranges: list[list[int]] = []
    for window in sorted(windows):
        if ranges and ranges[-1][1] == window:
            ranges[-1][1] = window + 1
            ranges[-1][2] += under_way.get(window, 0)
        else:
            ranges.append([window, window + 1, under_way.get(window, 0)])
    excess = len(ranges) - MAX_HOLDS
    if excess > 0:
        narrowest = sorted(range(1, len(ranges)), key=lambda at: ranges[at][0] - ranges[at - 1][1])[:excess]
        for at in sorted(narrowest, reverse=True):
            ranges[at - 1][1], ranges[at - 1][2] = ranges[at][1], ranges[at - 1][2] + ranges[at][2]
            del ranges[at]
    return tuple(Hold(first * window_ms, end * window_ms, count) for first, end, count in ranges)
