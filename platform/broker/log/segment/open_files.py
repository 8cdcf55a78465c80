"""How many segment files are held open at once, over all logs: the one opened longest ago is let go for the next.

A log's own rule (its active segment, one closed one that is read) bounds a log's files, not those of 10,000 logs. A file that was
let go is opened again when it is needed (5 µs). One that is not on disk yet goes only where all of the oldest are such: Linux
tells a write-back's error to the next who opens the file and flushes it, but only while it remembers the file at all.

Any thread may open and let go: who uses a file holds it.
"""

import itertools
import threading
from typing import Protocol
from weakref import WeakValueDictionary

_LOOKED_AT = 64


class Holder(Protocol):
    """Who holds a file open."""

    @property
    def is_flushed(self) -> bool: ...

    def let_go(self) -> None: ...


class OpenFiles:
    """Holders of open files, in the order of opening."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """May be changed at any time; counts from the next opening."""
        self._holders: WeakValueDictionary[int, Holder] = WeakValueDictionary()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: Holder) -> None:
        """Take note that `holder` has just opened a file; let others go when there are too many."""
        with self._lock:
            self._holders.pop(id(holder), None)
            gone = [self._take_oldest() for _ in range(len(self._holders) + 1 - max(1, self.limit))]
            self._holders[id(holder)] = holder
        for other in gone:
            if other is not None:
                other.let_go()

    def closed(self, holder: Holder) -> None:
        """Take note that `holder` holds none any more."""
        with self._lock:
            self._holders.pop(id(holder), None)

    def _take_oldest(self) -> Holder | None:
        oldest = list(itertools.islice(self._holders.values(), _LOOKED_AT))
        if not oldest:
            return None
        found = next((holder for holder in oldest if holder.is_flushed), oldest[0])
        self._holders.pop(id(found), None)
        return found


shared = OpenFiles(limit=1_000)
"""All segments of this process."""
