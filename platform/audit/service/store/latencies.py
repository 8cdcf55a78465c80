"""How long after the live log each other tier comes: from the audit's reading of an offset in the live log to its hearing of the
same offset from the tier. In memory, since the service began; bounded.
"""

from bisect import bisect_left
from collections import deque
from typing import Any

from ...model.tiers import LIVE

MOST_MARKS = 512
"""Places in a live log, with their times, that are kept of one partition."""
MOST_SAMPLES = 1_000
"""Latest samples that are kept of one tier of one topic."""
MOST_TOPICS = 2_000


class Latencies:
    """Marks of the live logs, and samples of the other tiers. Not for two threads at once."""

    def __init__(self) -> None:
        self._marks: dict[tuple[str, int], deque[tuple[int, int]]] = {}
        self._reached: dict[tuple[str, str, int], int] = {}
        self._samples: dict[tuple[str, str], deque[int]] = {}

    def reached(self, tier: str, topic: str, partition: int, to_offset: int, now_ms: int) -> None:
        """Note that the tier has reported all up to `to_offset`."""
        key = (topic, partition)
        if tier == LIVE:
            if key not in self._marks and len(self._marks) >= MOST_TOPICS:
                return
            marks = self._marks.setdefault(key, deque(maxlen=MOST_MARKS))
            if not marks or marks[-1][0] < to_offset:
                marks.append((to_offset, now_ms))
            return
        if to_offset <= self._reached.get((tier, *key), -1):
            return
        self._reached[tier, topic, partition] = to_offset
        known = self._marks.get(key)
        if not known:
            return
        at = bisect_left(known, (to_offset, 0))
        if at == len(known) or (at == 0 and known[0][0] > to_offset):
            return
        self._samples.setdefault((topic, tier), deque(maxlen=MOST_SAMPLES)).append(max(0, now_ms - known[at][1]))

    def of(self, topic: str) -> list[dict[str, Any]]:
        """Return the tiers' latencies of a topic: p50 and p99 in milliseconds, and of how many ranges."""
        return [
            {"tier": tier, "p50_ms": _share(samples, 50), "p99_ms": _share(samples, 99), "count": len(samples)}
            for (one, tier), samples in sorted(self._samples.items())
            if one == topic
        ]


def _share(samples: deque[int], percent: int) -> int:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
