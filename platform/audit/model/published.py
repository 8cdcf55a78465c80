"""The row of the branch `main` beside a window's verdict: what readers get of its hour, as the publish has read it back. Pure.

No verdict hangs on it, as on no sink's row (`facts.SinkRow`). It is reported by the hour; its numbers are in the first window.
"""

from dataclasses import replace

from .facts import Kind, SinkRow, Verdict, WindowFacts
from .messages import PublishedHour
from .tiers import MAIN, WAREHOUSE


def with_main(verdict: Verdict, window: WindowFacts) -> Verdict:
    """Return the verdict with the row of `main`, where a publish has reported of the window's hour."""
    if window.published is None:
        return verdict
    row = _row(window.published, window.window_start_ms, verdict.tiers.get(WAREHOUSE))
    return replace(verdict, sinks={**verdict.sinks, MAIN: row})


def _row(told: PublishedHour, window_start_ms: int, loaded: int | None) -> SinkRow:
    counted = told.windows[window_start_ms]
    is_first = window_start_ms == min(told.windows)
    count: int | None = counted
    reason = f"revision {told.revision}: {told.reason}"
    match told.verdict:
        case "WITHDRAWN":
            kind, count = Kind.OPEN, 0
        case "ERASED":
            kind, count = Kind.ACCEPTED, None
        case "COMPLETE" | "ACCEPTED" | "ACCOUNTED" if counted == loaded:
            kind = Kind(told.verdict)
        case "COMPLETE" | "ACCEPTED" | "ACCOUNTED":
            kind = Kind.OPEN
            reason = f"revision {told.revision} holds {counted} rows of this window, and {loaded or 0} are loaded now"
        case _:
            kind, count = Kind.DOUBLED if told.doubled and not told.missing else Kind.INCOMPLETE, None
    return SinkRow(
        kind=kind,
        count=count,
        missing=told.missing if is_first else 0,
        doubled=told.doubled if is_first else 0,
        altered=0,
        quarantined=0,
        losses={},
        silent=(),
        reason=reason,
        differences=(),
    )
