"""What happened at a receiver, by name, counted by several threads."""

import threading
from collections import Counter


class Counts:
    """Totals since the agent's start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: Counter[str] = Counter()

    def add(self, name: str, count: int = 1) -> None:
        if count:
            with self._lock:
                self._totals[name] += count

    def totals(self) -> dict[str, int]:
        with self._lock:
            return dict(self._totals)
