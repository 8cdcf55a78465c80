"""Windows of event time: tumbling, ten minutes by default, one rule for all who count. Source: KAFKA-260's example bucket;
DESIGN.md section 6.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

WINDOW_MS = 600_000
"""The default width."""
MOST_SPANS = 100
"""Spans of event times with news that are remembered one by one; beyond it, every window counts as touched."""


def window_start_ms(timestamp_ms: int, window_ms: int = WINDOW_MS) -> int:
    """Return the start of the window that holds `timestamp_ms`.

    All negative timestamps (Kafka's "no timestamp" is -1) fall in one window, the one that ends at 0: without a time
    there is no telling them apart, and no peer can open a window below what the store can hold.
    """
    if timestamp_ms < 0:
        return -window_ms
    return timestamp_ms - timestamp_ms % window_ms


def utc(at_ms: int) -> str:
    """Return the instant in words; one that no calendar holds as its number."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def in_words(start_ms: int) -> str:
    """Return the start of a window in UTC, to the minute: '2015-05-17 10:00'."""
    if start_ms < 0:
        return "without a time"
    words = utc(start_ms)
    return words if words.endswith("ms") else words[:-3]


def dated(own_ms: int | None, *, previous_ms: int | None, clock_ms: int) -> tuple[int, Literal["record", "previous", "clock"]]:
    """Return the time by which something unusable is counted, and whose it is: its own, else that of the record before it,
    else this machine's.
    """
    if own_ms is not None:
        return own_ms, "record"
    return (clock_ms, "clock") if previous_ms is None else (previous_ms, "previous")


@dataclass(slots=True)
class News:
    """Which windows of a topic may have another verdict now."""

    windows: set[int] = field(default_factory=set)
    of_sinks: set[int] = field(default_factory=set)
    """Windows of which only the rows of sinks may have changed."""
    spans: list[tuple[int, int] | None] = field(default_factory=list)
    """Event times of which every window may be touched; None: all there are."""

    def touches(self, window_start_ms: int, window_end_ms: int) -> bool:
        """Return whether there is news of the window."""
        return window_start_ms in self.windows or any(
            span is None or (span[0] < window_end_ms and window_start_ms < span[1]) for span in self.spans
        )

    def add_span(self, span: tuple[int, int] | None) -> None:
        """Note that every window of these times may be touched."""
        if span is None or len(self.spans) >= MOST_SPANS:
            self.spans = [None]
        elif self.spans != [None] and span not in self.spans:
            self.spans.append(span)
