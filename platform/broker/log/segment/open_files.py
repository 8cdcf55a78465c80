"""The limit of open segment files over all logs: when it is reached, the file that was opened longest ago is closed.

Each log holds few files open (its active segment and one that is read), but 10,000 logs hold many. A closed file is opened again
when it is needed (5 µs). An unflushed file is closed only when all of the oldest files are unflushed: Linux reports a failed
write to the next process that opens and flushes the file, but only while the file is still in memory.

Any thread may open and close here. A caller keeps the `OpenFile` that it uses.
"""

import itertools
import threading
from typing import Protocol
from weakref import WeakValueDictionary

_LOOKED_AT = 64


class Holder(Protocol):
    """An owner of an open file."""

    @property
    def is_flushed(self) -> bool: ...

    def close_file(self) -> None: ...


class OpenFiles:
    """Holders of open files, in the order of opening."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """May be changed at any time; applies from the next opening on."""
        self._holders: WeakValueDictionary[int, Holder] = WeakValueDictionary()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: Holder) -> None:
        """Record that `holder` has just opened a file. Close others when there are too many."""
        with self._lock:
            self._holders.pop(id(holder), None)
            gone = [self._take_oldest() for _ in range(len(self._holders) + 1 - max(1, self.limit))]
            self._holders[id(holder)] = holder
        for other in gone:
            if other is not None:
                other.close_file()

    def closed(self, holder: Holder) -> None:
        """Record that `holder` has closed its file."""
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
"""For all segments of this process."""
