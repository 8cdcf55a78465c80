"""Windows of event time: tumbling, ten minutes by default, one rule for all who count. Source: KAFKA-260's example bucket;
DESIGN.md section 6.
"""

from datetime import UTC, datetime
from typing import Literal

WINDOW_MS = 600_000
"""The default width."""


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
