"""Hours of event time as columns of a table: newest first, with years, and with every gap marked. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..audit.model.windows import utc

HOUR_MS = 3_600_000
DAY_HOURS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One hour, or a gap before the next older one."""

    start_ms: int | None
    """None: a gap."""
    text: str
    """The hour as two digits; of a gap how long it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A heading over the columns of one day, or over one gap."""

    text: str
    """With the year; of a gap how long it is."""
    width: int
    is_gap: bool = False


def columns(starts: Iterable[int]) -> list[Column]:
    """Return a column for each hour, newest first. Between two that do not follow each other stands a gap."""
    found: list[Column] = []
    newer: int | None = None
    for start in sorted(set(starts), reverse=True):
        missing = 0 if newer is None else (newer - start) // HOUR_MS - 1
        if missing > 0:
            found.append(Column(start_ms=None, text=_span(missing)))
        words = utc(start)
        found.append(Column(start_ms=start, text=words if words.endswith("ms") else words[11:13]))
        newer = start
    return found


def days(found: Iterable[Column]) -> list[Day]:
    """Return the headings over the columns."""
    headings: list[Day] = []
    for one in found:
        if one.start_ms is None:
            headings.append(Day(text=one.text, width=1, is_gap=True))
            continue
        text = _day(one.start_ms)
        if headings and headings[-1].text == text:
            headings[-1] = Day(text=text, width=headings[-1].width + 1)
        else:
            headings.append(Day(text=text, width=1))
    return headings


def _day(start_ms: int) -> str:
    words = utc(start_ms)
    return words if words.endswith("ms") else words[:10]


def _span(hours: int) -> str:
    count, unit = (hours, "hour") if hours < 2 * DAY_HOURS else (hours // DAY_HOURS, "day")
    return f"{count:,} {unit}{'' if count == 1 else 's'} without a window"
