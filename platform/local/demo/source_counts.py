"""How many events the demo sent in each window, counted at the source: the log's own lines, or HTTP requests that were answered.

Knows nothing of the replay's parser, the SDK or the audit: what they say is compared with this.
"""

import gzip
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from ...audit.model.windows import WINDOW_MS, window_start_ms

_TIME = re.compile(rb"\[(\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]")
_LINE_BYTES = 64 * 1024
"""How much of a line is searched for its time, as in the replay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCounts:
    """The events of one source."""

    in_window: Mapping[int, int]
    """Window start (ms) → events that lie in it for certain."""
    unplaced: int = 0
    """Events that lie in some window: a line without a time, a request that was under way at a border."""

    @property
    def total(self) -> int:
        return sum(self.in_window.values()) + self.unplaced


def of_log(path: Path) -> SourceCounts:
    """Count the lines of an access log, plain or .gz, by the first time stamp in each. Raises OSError."""
    counts: Counter[int] = Counter()
    unplaced = 0
    for line in _lines(path):
        at_ms = _time_ms(line)
        if at_ms is None:
            unplaced += 1
        else:
            counts[window_start_ms(at_ms)] += 1
    return SourceCounts(in_window=dict(counts), unplaced=unplaced)


class AnsweredRequests:
    """Counts HTTP requests by the window in which they were made; any thread may add one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_window: Counter[int] = Counter()
        self._unplaced = 0

    def add(self, sent_ms: int, answered_ms: int) -> None:
        """Count a request. It reached the server between the two instants."""
        start = window_start_ms(sent_ms)
        with self._lock:
            if answered_ms < start + WINDOW_MS and answered_ms >= sent_ms:
                self._in_window[start] += 1
            else:
                self._unplaced += 1

    def counts(self) -> SourceCounts:
        with self._lock:
            return SourceCounts(in_window=dict(self._in_window), unplaced=self._unplaced)


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the beginning of each line."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while line := file.readline(_LINE_BYTES):
            yield line
            while not line.endswith(b"\n") and (line := file.readline(_LINE_BYTES)):
                pass


def _time_ms(line: bytes) -> int | None:
    """Return the line's first time stamp in milliseconds; None if it has none, none that can be, or one before 1970."""
    found = _TIME.search(line)
    return None if found is None else _instant_ms(found[1])


@lru_cache(maxsize=1024)
def _instant_ms(stamp: bytes) -> int | None:
    try:
        seconds = datetime.strptime(stamp.decode(), "%d/%b/%Y:%H:%M:%S %z").timestamp()
    except ValueError:
        return None
    return int(seconds) * 1000 if seconds >= 0 else None
