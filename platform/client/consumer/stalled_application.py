"""Whether an application still comes for messages. While it does not, its member is of no use to the group: it leaves, and joins
again when the application is back.

The membership's thread looks; the application's only counts, so that a message costs no look at the clock.
"""

import time
from collections.abc import Callable

from ...runtime.logs import get_logger

log = get_logger(__name__)

LONGEST_LOOK_MS = 3_000


class StalledApplication:
    """The watch over one application. Without `stall_ms` it is never stalled."""

    def __init__(
        self,
        stall_ms: int | None,
        *,
        on_stalled: Callable[[int], None] | None = None,
        name: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_stalled(ms)` is called once for each time that it stalls."""
        self._stall_ms, self._on_stalled, self._name = stall_ms, on_stalled, name
        self._monotonic = monotonic
        self.turns = 0
        """How often the application came. Written by one thread."""
        self.is_overdue = False
        """It comes, and says itself that it has stalled."""
        self._seen: int | None = None
        self._seen_at = 0.0
        self._is_stalled = False

    @property
    def look_every_ms(self) -> float:
        """How often the membership is to look, at least; infinite without a limit."""
        return float("inf") if self._stall_ms is None else min(LONGEST_LOOK_MS, max(20, self._stall_ms // 4))

    def is_stalled(self) -> bool:
        """Return whether it has not come for `stall_ms`, as far as this thread has looked."""
        if self._stall_ms is None:
            return False
        now, turns = self._monotonic(), self.turns
        if turns != self._seen and not self.is_overdue:
            self._seen, self._seen_at = turns, now
            if self._is_stalled:
                log.info("application_is_back", consumer=self._name)
            self._is_stalled = False
            return False
        away_ms = int((now - self._seen_at) * 1000)
        if self.is_overdue:
            away_ms = max(away_ms, self._stall_ms)
        if away_ms >= self._stall_ms and not self._is_stalled:
            self._is_stalled = True
            log.error("application_stalled", consumer=self._name, after_ms=away_ms, then="leaves the group until it is back")
            if self._on_stalled is not None:
                self._on_stalled(away_ms)
        return self._is_stalled
