"""The audit's page: verdicts as rows of plain words and colours for the template.

Pure but for reading the template's file.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ...model.tiers import in_order
from ..judge import Judged

MOST_ROWS = 1_000
REFRESH_S = 10

_environment = Environment(
    loader=PackageLoader(__package__ or "headrace.audit.service"), autoescape=True, undefined=StrictUndefined
)


@dataclass(frozen=True, slots=True)
class CellView:
    """One count as it is shown."""

    text: str
    colour: str


def utc(at_ms: int) -> str:
    """Return the instant in words; one that no calendar holds as its number."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def window_words(judged: Judged) -> str:
    """Return the window's day and borders, in UTC."""
    if judged.window_start_ms < 0:
        return "without a time"
    start, end = utc(judged.window_start_ms), utc(judged.window_end_ms)
    return start if start.endswith("ms") else f"{start[:-3]} – {end[-8:-3]}"


def cells(judged: Judged, tiers: Sequence[str]) -> list[CellView]:
    """Return the counts of `tiers`, in that order, each with its difference from the tier before it."""
    verdict = judged.verdict
    surplus: Counter[str] = Counter()
    for one in verdict.differences:
        surplus[one.tier] += one.extra - one.missing
    bad = {one.tier for one in verdict.differences}
    views = []
    for tier in tiers:
        count = verdict.tiers.get(tier)
        is_silent = any(who == tier or who.startswith(f"{tier}:") for who in verdict.silent)
        if count is None:
            views.append(CellView("– silent" if is_silent else "–", "unknown" if is_silent else "wait"))
        elif tier in bad:
            by = surplus[tier]
            sign = f"{by:+,}".replace("-", "−") if by else "±"
            views.append(CellView(f"{count:,} ({sign})", "less" if by <= 0 else "more"))
        else:
            views.append(CellView(f"{count:,} silent" if is_silent else f"{count:,}", "unknown" if is_silent else "ok"))
    return views


def why(judged: Judged) -> str:
    """Return the reason and the figures that are not columns of their own."""
    verdict = judged.verdict
    more = [
        f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(verdict.losses.items()) if count and name != "quarantined"
    ]
    if verdict.unaudited:
        more.append(f"unaudited {verdict.unaudited:,}")
    if verdict.redelivered:
        more.append(f"redelivered {verdict.redelivered:,}")
    return "; ".join([verdict.reason, *more])


def render(
    *,
    topics: Sequence[str],
    topic: str | None,
    windows: Sequence[Judged],
    changes: Sequence[Mapping[str, Any]],
    faults: Sequence[str],
    now_ms: int,
) -> str:
    """Return the page."""
    kinds = Counter(one.verdict.kind.value for one in windows)
    tiers = in_order(tier for one in windows for tier in one.verdict.tiers)
    rows = [
        {
            "time": window_words(one),
            "cells": cells(one, tiers),
            "quarantined": f"{one.verdict.quarantined:,}",
            "verdict": one.verdict.kind.value,
            "missing": f"{one.verdict.missing:,}",
            "extra": f"{one.verdict.extra:,}",
            "why": why(one),
        }
        for one in sorted(windows, key=lambda one: -one.window_start_ms)[:MOST_ROWS]
    ]
    return _environment.get_template("index.html").render(
        refresh_s=REFRESH_S,
        now=utc(now_ms),
        topics=topics,
        topic=topic,
        faults=faults,
        summary=sorted(kinds.items()),
        tiers=tiers,
        rows=rows,
        total=len(windows),
        changes=[
            {
                "at": utc(change["at_ms"]),
                "window": utc(change["window_start_ms"]),
                "before": change["from_verdict"] or "new",
                "after": change["to_verdict"],
                "missing": change["missing"],
                "extra": change["extra"],
            }
            for change in changes
        ],
    )
