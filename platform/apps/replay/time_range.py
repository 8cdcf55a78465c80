"""Reads a log once for the times of its lines, so that a replay can announce which windows it will touch."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...agent.parsers.access_log import event_time_of
from .log_lines import LogFile, LogUnreadable

TOLD_EVERY_LINES = 4_096
"""The callbacks run once in this many lines."""
HEAD_LINES = 1_000
"""By so many lines, times included, two logs are distinguished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """What a log held when it was read."""

    lines: int
    """A log that is still written to grows: later lines have times that are not announced."""
    between_ms: tuple[int, int] | None
    """The first instant and the first one behind the last, of all lines that have a time; None if none has."""
    head: str
    """A hash of its first lines: of the same file again, also when it has grown beyond them, it is the same."""


def time_range(
    path: Path, *, is_stopped: Callable[[], bool], on_progress: Callable[[int, float], None] = lambda lines, share: None
) -> TimeRange:
    """Return the log's times, up to where it can be read; less if `is_stopped`. Raises LogUnreadable if it cannot be opened."""
    lines, first_ms, last_ms = 0, None, None
    head = hashlib.sha256()
    with LogFile(path) as log:
        try:
            for line in log.lines():
                lines = line.number
                if lines <= HEAD_LINES:
                    head.update(line.content)
                time_ms = event_time_of(line.content)
                if time_ms is not None:
                    first_ms = time_ms if first_ms is None else min(first_ms, time_ms)
                    last_ms = time_ms if last_ms is None else max(last_ms, time_ms)
                if lines % TOLD_EVERY_LINES == 0:
                    on_progress(lines, log.progress)
                    if is_stopped():
                        break
        except LogUnreadable:
            pass  # the replay comes to the same place, and tells
    between_ms = None if first_ms is None or last_ms is None else (first_ms, last_ms + 1)
    return TimeRange(lines=lines, between_ms=between_ms, head=head.hexdigest())
