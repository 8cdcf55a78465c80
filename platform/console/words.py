"""The audit's windows (JSON objects) as rows of plain words and colours for the templates. Pure; judges nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..audit.model.tiers import CHAIN
from ..audit.service.web import report

SHORT = {"COMPLETE": "✓", "OPEN": "…", "UNKNOWN": "? UNKNOWN", "ACCOUNTED": "✓ named", "ACCEPTED": "✓ accepted"}
MOST_READERS = 6
"""Groups of the verdict that have a column each; beyond it they share one, so that a page stays small."""
MOST_NAMED = 3
TROUBLED = ("INCOMPLETE", "ALTERED", "DOUBLED", "UNKNOWN")
Window = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CellView:
    """One cell as it is shown."""

    text: str
    colour: str


def hour_cell(found: Sequence[Any] | None) -> CellView:
    """Return an hour's worst verdict, and how many of its records are not as they should be. None: no tier mentions the hour."""
    if found is None:
        return CellView("·", "none")
    verdict, records = found
    return CellView(f"{verdict} {records:,}" if records else SHORT.get(verdict, verdict), f"v-{verdict}")


def trouble_words(windows: Mapping[str, int]) -> str:
    """Return the verdicts that are not as they should be, of all windows of a topic; empty: none."""
    return ", ".join(f"{windows[verdict]:,} {verdict}" for verdict in TROUBLED if windows.get(verdict))


def columns(windows: Sequence[Window]) -> list[str]:
    """Return the tiers that have a column: those of the chain, and the groups of the verdict while they are few."""
    named = report.tiers(windows)
    readers = [tier for tier in named if tier not in CHAIN]
    return named if len(readers) <= MOST_READERS else [tier for tier in named if tier in CHAIN]


def cells(one: Window, tiers: Sequence[str]) -> list[CellView]:
    """Return the counts of `tiers`, in that order, each with how it differs from the tier before it.

    A tier that has counted less, while the verdict is still open, is behind: that is not yet a loss, and not right either.
    """
    less: Counter[str] = Counter()
    more: Counter[str] = Counter()
    altered: Counter[str] = Counter()
    for difference in one["differences"]:
        less[difference["tier"]] += difference["missing"]
        more[difference["tier"]] += difference["doubled"]
        altered[difference["tier"]] += difference["altered"]
    is_undecided = one["verdict"] in ("OPEN", "UNKNOWN")
    most = 0
    views = []
    for tier in tiers:
        count = one["tiers"].get(tier)
        is_silent = any(who == tier or who.startswith(f"{tier}:") for who in one["silent"])
        if count is None:
            views.append(CellView("– silent" if is_silent else "–", "unknown" if is_silent else "wait"))
            continue
        parts = [f"{sign}{found[tier]:,}" for sign, found in (("−", less), ("+", more), ("≠", altered)) if found[tier]]
        if parts:
            views.append(CellView(f"{count:,} ({' '.join(parts)})", "less" if less[tier] or altered[tier] else "more"))
        elif is_silent:
            views.append(CellView(f"{count:,} silent", "unknown"))
        elif is_undecided and count < most:
            views.append(CellView(f"{count:,} of {most:,}", "behind"))
        else:
            views.append(CellView(f"{count:,}", "ok"))
        most = max(most, count)
    return views


def readers_words(one: Window, shown: Sequence[str]) -> str:
    """Return the groups of the verdict that have no column of their own, in a few words; empty: there are none."""
    others = [tier for tier in report.tiers([one]) if tier not in shown]
    if not others:
        return ""
    views = dict(zip(others, cells(one, others), strict=True))
    wrong = [tier for tier, view in views.items() if view.colour != "ok"]
    named = [f"{tier.partition(':')[2]} {views[tier].text}" for tier in wrong[:MOST_NAMED]]
    return _few(len(others), "group", named, len(wrong))


def sinks_words(one: Window) -> str:
    """Return the sinks and groups beside the verdict in a few words; empty: there are none."""
    readers = one["readers"]
    named = [f"{name.partition(':')[2]} {verdict}" for name, verdict in readers["named"][:MOST_NAMED]]
    return _few(readers["count"], "reader", named, readers["wrong"]) if readers["count"] else ""


def _few(count: int, what: str, named: Sequence[str], wrong: int) -> str:
    total = f"{count:,} {what}{'' if count == 1 else 's'}"
    if not wrong:
        return f"{total}: all COMPLETE" if what == "reader" else f"{total}: all as expected"
    more = f" and {wrong - len(named):,} more" if wrong > len(named) else ""
    return f"{total}; {', '.join(named)}{more}"


def row(one: Window, tiers: Sequence[str]) -> dict[str, Any]:
    """Return a window, or a day of them, as a row of the topic's page. `one`: as brief as `/api/topic` gives it."""
    is_day = report.is_day(one)
    return {
        "start": None if is_day else one["window_start_ms"],
        "at": one["window_start_ms"],
        "end": one["window_end_ms"],
        "time": report.time_words(one),
        "cells": cells(one, tiers),
        "readers": readers_words(one, tiers),
        "sinks": sinks_words(one),
        "quarantined": one["quarantined"],
        "verdict": one["verdict"],
        "wrong": ", ".join(f"{one[name]:,} {name}" for name in ("missing", "doubled", "altered") if one[name]),
        "late": one.get("late", 0),
        "why": why_words(one),
    }


def why_words(one: Window) -> str:
    """Return the reason of a verdict, without what has a column: sinks and late records."""
    return report.why_words({**one, "sinks": {}, "late": 0})


def full_why(one: Window) -> str:
    """Return the reason as the page of one window gives it."""
    words = why_words(one)
    return f"{one['reason']}; {words}" if one["verdict"] == "COMPLETE" else words


def producer_words(record: Mapping[str, Any]) -> str:
    """Return a record's producer id and epoch."""
    return "–" if record.get("producer_id") is None else f"{record['producer_id']} epoch {record['producer_epoch']}"
