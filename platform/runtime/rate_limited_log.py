"""Logs at most one line a second for each event, with a count of those left out, so that a misbehaving peer cannot flood the log.

Every event is counted, logged or not."""

from collections.abc import Callable
from typing import Any

from .logs import EventLogger

EVERY_MS = 1_000


class RateLimitedLog:
    """Its memory is bounded by the number of distinct events, which are names in our code."""

    def __init__(self, log: EventLogger, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._next_ms: dict[str, int] = {}
        self._left_out: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        """How often each event occurred, by its `reason` where it has one; for metrics."""

    def warning(self, event: str, **fields: Any) -> None:
        """Log the event, unless it was logged within the last second."""
        self._emit(self._log.warning, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log a fault of ours, unless one was logged within the last second."""
        self._emit(self._log.error, event, fields)

    def _emit(self, emit: Callable[..., None], event: str, fields: dict[str, Any]) -> None:
        counted_as = fields.get("reason", event)
        self.counts[counted_as] = self.counts.get(counted_as, 0) + 1
        now_ms = self._now_ms()
        if now_ms < self._next_ms.get(event, 0):
            self._left_out[event] = self._left_out.get(event, 0) + 1
            return
        self._next_ms[event] = now_ms + EVERY_MS
        if (left_out := self._left_out.pop(event, 0)) > 0:
            fields["left_out"] = left_out
        emit(event, **fields)
