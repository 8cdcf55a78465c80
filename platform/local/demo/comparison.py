"""Compares what the demo sent with the audit's windows and with the rows that the warehouse shows, window by window. Pure."""

from collections.abc import Collection, Iterator, Mapping

from ...audit.model.tiers import LIVE, MIRROR, OFFLINE, PRODUCER, WAREHOUSE
from ...audit.service.web import report
from .demo_share import Before, Windows
from .source_counts import SourceCounts

Rows = Mapping[int, int]
"""Window start (ms) → rows of this demo."""
QUARANTINED = "quarantined"


def faults(sent: SourceCounts, starts: Collection[int], before: Before, found: Windows, rows: Rows) -> list[str]:
    """Return what is wrong, one line each; empty if every event that was sent is accounted for in its window.

    `starts` are all windows that may hold an event of this demo. A window that was sent to and that the audit does not know is a
    fault.
    """
    lines: list[str] = []
    windows = sorted(sent.in_window.keys() | {start for start in starts if start in found})
    for start in windows:
        name = report.time_words({"window_start_ms": start})
        lines += [f"{name}: {fault}" for fault in _window_faults(sent, before, found, rows, start)]
    known = sum(_taken(before, found, start) for start in windows if start in found)
    if known != sent.total:
        lines.append(f"in all windows: {sent.total:,} events were sent, the audit knows of {known:,}")
    return lines


def _window_faults(sent: SourceCounts, before: Before, found: Windows, rows: Rows, start: int) -> Iterator[str]:
    count = sent.in_window.get(start, 0)
    if start not in found:
        yield f"{count:,} events were sent, and the audit does not know the window"
        return
    window = found[start]
    if window["verdict"] != "COMPLETE":
        yield f"{window['verdict']}: {window['reason']}"
    taken = _taken(before, found, start)
    if taken < count or (taken > count and not sent.unplaced):
        yield f"{count:,} events were sent, the audit knows of {taken:,}"
    logged = taken - _refused(before, found, start)
    loaded = taken - _quarantined(before, found, start)
    for tier, due in ((LIVE, logged), (MIRROR, logged), (OFFLINE, logged), (WAREHOUSE, loaded)):
        own = before.own(found, start, tier)
        if own != due:
            yield f"{due:,} events are due in {tier}, the audit counts {report.count_words(own)}"
    if rows.get(start, 0) != loaded:
        yield f"{loaded:,} rows are due in the warehouse, a query finds {rows.get(start, 0):,}"


def _taken(before: Before, found: Windows, start: int) -> int:
    """Return how many events of this demo the producers took in: acknowledged or in quarantine."""
    return (before.own(found, start, PRODUCER) or 0) + _refused(before, found, start)


def _refused(before: Before, found: Windows, start: int) -> int:
    """Return how many events of this demo the producers put into quarantine."""
    earlier = before.windows[start]["losses"].get(QUARANTINED, 0) if start in before.windows else 0
    return int(found[start]["losses"].get(QUARANTINED, 0)) - int(earlier)


def _quarantined(before: Before, found: Windows, start: int) -> int:
    """Return how many events of this demo are in quarantine, by whomever."""
    earlier = before.windows[start][QUARANTINED] if start in before.windows else 0
    return int(found[start][QUARANTINED]) - int(earlier)
