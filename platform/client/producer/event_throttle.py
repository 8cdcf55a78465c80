"""Limits how often similar events are logged: the first one, then one in a while with the number left out. Pure: `now_ms` comes
in.
"""

from typing import Any

EVERY_MS = 10_000
MOST_KINDS = 1_000
"""With more kinds than this, all are forgotten: then the next event of each kind is logged."""


class EventThrottle:
    """Counts events by kind; for one thread."""

    def __init__(self, every_ms: int = EVERY_MS) -> None:
        self._every_ms = every_ms
        self._next_ms: dict[object, int] = {}
        self._left_out: dict[object, int] = {}

    def is_due(self, kind: object, now_ms: int) -> bool:
        """Return whether to log this event; if not, it is counted as left out."""
        if now_ms < self._next_ms.get(kind, now_ms):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        if len(self._next_ms) >= MOST_KINDS:
            self._next_ms.clear()
            self._left_out.clear()
        self._next_ms[kind] = now_ms + self._every_ms
        return True

    def left_out(self, kind: object) -> dict[str, Any]:
        """Return how many of the kind were left out since the last logged one, as a field; empty if none was."""
        count = self._left_out.pop(kind, 0)
        return {"left_out": count} if count else {}
