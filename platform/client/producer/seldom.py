"""Which of many like events are told: the first, then one in a while with the number left out. Pure: `now_ms` comes in."""

from typing import Any

EVERY_MS = 10_000
MOST_KINDS = 1_000
"""Of more than this all are forgotten: then one of each is told again."""


class Seldom:
    """Counts events by kind; for one thread."""

    def __init__(self, every_ms: int = EVERY_MS) -> None:
        self._every_ms = every_ms
        self._next_ms: dict[object, int] = {}
        self._left_out: dict[object, int] = {}

    def is_told(self, kind: object, now_ms: int) -> bool:
        """Return whether this one is to be told; else it is counted as left out."""
        if now_ms < self._next_ms.get(kind, now_ms):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        if len(self._next_ms) >= MOST_KINDS:
            self._next_ms.clear()
            self._left_out.clear()
        self._next_ms[kind] = now_ms + self._every_ms
        return True

    def left_out(self, kind: object) -> dict[str, Any]:
        """Return how many of the kind were left out since the last that was told, as a field; none where none was."""
        count = self._left_out.pop(kind, 0)
        return {"left_out": count} if count else {}
