"""Decides which hours readers may see. Pure: the warehouse's rows and the audit's verdicts in, one decision per hour out.

An hour opens only under three conditions. It has ended. Every window that the audit knows of it is COMPLETE, or ACCEPTED. Readers
would see exactly as many rows as the warehouse tier of these windows counts: then the rows shown are the rows proven. UNKNOWN is
never complete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...audit.model.tiers import WAREHOUSE
from ..errors import WarehouseError

HOUR_MS = 3_600_000
COMPLETE = "COMPLETE"
ACCEPTED = "ACCEPTED"
"""Complete except for a producer that an operator has retired, with a name and a reason: the retirement opens the hour."""
OPEN = "OPEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedWindow:
    """One window as the audit sees it."""

    window_start_ms: int
    verdict: str
    warehouse_count: int | None
    """Rows reported to the audit; None: not reported."""
    reason: str
    words: Mapping[str, Any]
    """The audit's full answer, for the proof."""

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> "AuditedWindow":
        """Return one element of `GET /api/completeness`. Raises WarehouseError for anything else."""
        try:
            start, verdict, count = words["window_start_ms"], words["verdict"], words["tiers"].get(WAREHOUSE)
            if not isinstance(start, int) or not isinstance(verdict, str) or not isinstance(count, int | None):
                raise TypeError(f"window {start!r}, verdict {verdict!r}, {WAREHOUSE} {count!r}")
            return cls(
                window_start_ms=start, verdict=verdict, warehouse_count=count, reason=str(words.get("reason") or ""), words=words
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise WarehouseError(f"the audit's answer is no list of windows ({type(error).__name__}: {error})") from error

    @property
    def hour(self) -> int:
        return self.window_start_ms // HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class HourDecision:
    """Whether readers may see one hour, and why not."""

    hour: int
    """Hours since the epoch."""
    row_count: int
    is_open: bool
    reason: str
    may_change_soon: bool
    """Waiting a little may open it: a window is still OPEN, or the audit has not processed the latest report."""
    windows: tuple[AuditedWindow, ...] = ()


def decide(rows_by_hour: Mapping[int, int], windows: Sequence[AuditedWindow], *, now_ms: int) -> list[HourDecision]:
    """Return a decision for each hour that has rows or windows, in order."""
    by_hour: dict[int, list[AuditedWindow]] = {hour: [] for hour in rows_by_hour}
    for window in windows:
        by_hour.setdefault(window.hour, []).append(window)
    return [
        _decide(hour, rows_by_hour.get(hour, 0), sorted(found, key=lambda one: one.window_start_ms), now_ms)
        for hour, found in sorted(by_hour.items())
    ]


def _decide(hour: int, rows: int, windows: Sequence[AuditedWindow], now_ms: int) -> HourDecision:
    def shut(reason: str, *, soon: bool) -> HourDecision:
        return HourDecision(hour=hour, row_count=rows, is_open=False, reason=reason, may_change_soon=soon, windows=tuple(windows))

    if now_ms < (hour + 1) * HOUR_MS:
        return shut("the hour has not ended", soon=False)
    reported = sum(window.warehouse_count or 0 for window in windows)
    is_digested = reported == rows
    bad = [window for window in windows if window.verdict not in (COMPLETE, ACCEPTED)]
    if bad:
        verdicts = ", ".join(f"{verdict} {count}" for verdict, count in _tally(bad).items())
        first = next((window for window in bad if window.reason), bad[0])
        reason = f"{len(bad)} of {len(windows)} windows are not COMPLETE ({verdicts})"
        reason += f"; first at {first.window_start_ms}: {first.reason or first.verdict}"
        return shut(reason, soon=not is_digested or any(window.verdict == OPEN for window in bad))
    if not windows:
        return shut(f"it has {rows} rows and the audit knows no window of it", soon=True)
    if not is_digested:
        return shut(f"it has {rows} rows and the audit was told of {reported}", soon=True)
    accepted = sum(window.verdict == ACCEPTED for window in windows)
    reason = f"{accepted} of {len(windows)} windows are ACCEPTED, the others COMPLETE" if accepted else "every window is COMPLETE"
    return HourDecision(hour=hour, row_count=rows, is_open=True, reason=reason, may_change_soon=False, windows=tuple(windows))


def _tally(windows: Sequence[AuditedWindow]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for window in windows:
        counts[window.verdict] = counts.get(window.verdict, 0) + 1
    return counts
