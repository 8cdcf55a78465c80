"""One window as `GET /api/completeness` gives it, and as it is stored: without what has its usual value. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from ...model.facts import Verdict
from .sink_rows import difference_json, sinks_json

COLUMNS = ("topic", "window_start_ms", "verdict", "missing", "doubled", "altered")
USUAL: Mapping[str, Any] = {
    "accounted": {},
    "quarantined": 0,
    "first_bad_tier": None,
    "unaudited": 0,
    "unread_reports": 0,
    "redelivered": 0,
    "erased": 0,
    "late": 0,
    "losses": {},
    "silent": [],
    "retired": [],
    "reason": "every tier accounts for what the one before it holds",
    "differences": [],
    "sinks": {},
}
"""What most windows say."""


def as_json(topic: str, window_start_ms: int, window_end_ms: int, verdict: Verdict, *, late: int = 0) -> dict[str, Any]:
    """Return a window as a JSON object. `late`: records that came after a verdict on the window was final."""
    return {
        "topic": topic,
        "window_start_ms": window_start_ms,
        "window_end_ms": window_end_ms,
        "verdict": verdict.kind.value,
        "tiers": dict(verdict.tiers),
        "missing": verdict.missing,
        "doubled": verdict.doubled,
        "altered": verdict.altered,
        "accounted": dict(verdict.accounted),
        "quarantined": verdict.quarantined,
        "first_bad_tier": verdict.first_bad_tier,
        "unaudited": verdict.unaudited,
        "unread_reports": verdict.unread_reports,
        "compared_identities": verdict.compared_identities,
        "compared_tiers": verdict.compared_tiers,
        "redelivered": verdict.redelivered,
        "erased": verdict.erased,
        "late": late,
        "losses": dict(verdict.losses),
        "silent": list(verdict.silent),
        "retired": list(verdict.retired),
        "reason": verdict.reason,
        "differences": [difference_json(one) for one in verdict.differences],
        "sinks": sinks_json(verdict.sinks),
    }


def stored(window: Mapping[str, Any], at_ms: int) -> tuple[Any, ...]:
    """Return the window, said at `at_ms`, as a row of the table `verdicts`."""
    topic, start_ms, *figures = (window[name] for name in COLUMNS)
    body = {
        name: value
        for name, value in window.items()
        if name not in COLUMNS and name != "window_end_ms" and (name not in USUAL or USUAL[name] != value)
    }
    return topic, start_ms, window["window_end_ms"] - start_ms, *figures, at_ms, json.dumps(body, separators=(",", ":"))


def restored(row: tuple[Any, ...]) -> dict[str, Any]:
    """Return the window of a row."""
    topic, start_ms, span_ms, verdict, missing, doubled, altered, _, body = row
    return {
        "topic": topic,
        "window_start_ms": start_ms,
        "window_end_ms": start_ms + span_ms,
        "verdict": verdict,
        "missing": missing,
        "doubled": doubled,
        "altered": altered,
        **USUAL,
        **json.loads(body),
    }
