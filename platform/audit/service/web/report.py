"""The report in words for people: one window at a time, as the service tells it. Judges nothing."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ...model.tiers import in_order

STYLE = {
    "COMPLETE": "",
    "ACCEPTED": "bold cyan",
    "INCOMPLETE": "bold red",
    "OVERCOUNTED": "bold yellow",
    "OPEN": "dim",
    "UNKNOWN": "bold magenta",
}
"""Verdict → style of its row on a terminal; the words say the same."""


def tiers(windows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return every tier that the windows name, in order."""
    return in_order(tier for window in windows for tier in window["tiers"])


def count_words(count: int | None) -> str:
    """Return a count; a tier that has not reported has none, which is not zero."""
    return "–" if count is None else f"{count:,}"


def time_words(window: Mapping[str, Any]) -> str:
    """Return the window's day and start in UTC."""
    start_ms = window["window_start_ms"]
    if start_ms < 0:
        return "without a time"
    try:
        return datetime.fromtimestamp(start_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return f"{start_ms} ms"


def verdict_words(window: Mapping[str, Any]) -> str:
    """Return the verdict with its figures: INCOMPLETE(missing 3)."""
    parts = [f"{name} {window[name]:,}" for name in ("missing", "extra") if window[name]]
    return f"{window['verdict']}({', '.join(parts)})" if parts else str(window["verdict"])


def why_words(window: Mapping[str, Any]) -> str:
    """Return the reason where there is something to explain, and what is not in a column."""
    words = [] if window["verdict"] == "COMPLETE" else [window["reason"]]
    words += [
        f"{count:,} {name.replace('_', ' ')}" for name, count in window["losses"].items() if count and name != "quarantined"
    ]
    words += [f"{name} {window[name]:,}" for name in ("unaudited", "redelivered") if window[name]]
    return "; ".join(words)
