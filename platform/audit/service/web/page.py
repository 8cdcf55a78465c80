"""The audit's pages: windows (their JSON objects) as rows of plain words and colours for the templates.

Pure but for reading the templates' files.
"""

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ...model.windows import utc
from . import report

REFRESH_S = 10
HOUR_MS = 3_600_000
_SHORT = {"COMPLETE": "✓", "OPEN": "…", "UNKNOWN": "?", "ACCOUNTED": "✓ named", "ACCEPTED": "✓ accepted"}

_environment = Environment(
    loader=PackageLoader(__package__ or "headrace.audit.service.web"), autoescape=True, undefined=StrictUndefined
)
# Compiled with the import: the first page is not to wait for it.
_OVERVIEW, _TOPIC, _WINDOW = (_environment.get_template(f"{name}.html") for name in ("overview", "topic", "window"))
Window = Mapping[str, Any]


def _hashes(tag: str) -> str:
    """Return the sources of a policy that allow the inline `tag` of the pages, by its content."""
    text = _environment.get_template("base.html").render(refresh_s=REFRESH_S, now="", faults=[])
    digests = (hashlib.sha256(found.encode()).digest() for found in re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL))
    return " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)


POLICY = (
    f"default-src 'none'; script-src {_hashes('script')}; style-src {_hashes('style')}; img-src data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy of the pages: their own script and style, and nothing that a topic's name may smuggle in."""


@dataclass(frozen=True, slots=True)
class CellView:
    """One cell as it is shown."""

    text: str
    colour: str


def overview(
    *,
    hours: Sequence[int],
    topics: Mapping[str, Mapping[int, tuple[str, int]]],
    troubled: Sequence[str],
    total: int,
    q: str,
    after: str | None,
    faults: Sequence[str],
    now_ms: int,
) -> str:
    """Return the page of many topics. `topics`: topic → hour's start → (worst verdict, records not as they should be)."""
    rows = [{"topic": topic, "cells": [_hour(mine.get(hour)) for hour in hours]} for topic, mine in topics.items()]
    return _OVERVIEW.render(
        refresh_s=REFRESH_S, now=utc(now_ms), faults=faults, q=q, after=after, troubled=troubled, total=total, rows=rows,
        hours=[_hour_words(hour) for hour in hours],
    )  # fmt: skip


def _hour_words(start_ms: int) -> str:
    words = utc(start_ms)
    return words if words.endswith("ms") else f"{words[5:10]} {words[11:13]}h"


def _hour(found: tuple[str, int] | None) -> CellView:
    if found is None:
        return CellView("", "wait")
    verdict, records = found
    return CellView(f"{verdict} {records:,}" if records else _SHORT.get(verdict, verdict), f"v-{verdict}")


def topic(
    *,
    topic: str,
    summary: Mapping[str, int],
    windows: Sequence[Window],
    before: int | None,
    days: Sequence[Window],
    changes: Iterable[Mapping[str, Any]],
    producers: Iterable[Mapping[str, Any]],
    latencies: Iterable[Mapping[str, Any]],
    faults: Sequence[str],
    now_ms: int,
) -> str:
    """Return the page of one topic: its windows by tier, newest first, and what else is known of it."""
    tiers, day_tiers = report.tiers(windows), report.tiers(days)
    return _TOPIC.render(
        refresh_s=REFRESH_S, now=utc(now_ms), faults=faults, topic=topic, summary=sorted(summary.items()), before=before,
        tiers=tiers, rows=[_row(one, tiers) for one in windows], day_tiers=day_tiers, days=[_row(one, day_tiers) for one in days],
        changes=[_change(one) for one in changes],
        producers=[
            {
                "instance": one["instance"],
                "silent": f"{one['silent_ms'] // 1000:,} s",
                "lost": f"{one['lost_reports']:,}",
                "state": f"retired by {one['retired']['by']}: {one['retired']['reason']}" if one["retired"] else "not sealed",
            }
            for one in producers
        ],
        latencies=[
            {
                "tier": one["tier"],
                "p50": f"{one['p50_ms'] / 1000:.1f} s",
                "p99": f"{one['p99_ms'] / 1000:.1f} s",
                "count": f"{one['count']:,}",
            }
            for one in latencies
        ],
    )  # fmt: skip


def window(
    *,
    window: Window,
    changes: Iterable[Mapping[str, Any]],
    live: str,
    offline: str | None,
    faults: Sequence[str],
    now_ms: int,
) -> str:
    """Return the page of one window: its counts, and which records are not as they should be."""
    tiers = report.tiers([window])
    return _WINDOW.render(
        refresh_s=REFRESH_S, now=utc(now_ms), faults=faults, topic=window["topic"], time=window_words(window),
        verdict=window["verdict"], why=_why(window), tiers=tiers, cells=cells(window, tiers),
        records=[
            {
                "tier": one["tier"],
                "partition": one["partition"],
                "kind": one["kind"],
                "count": f"{one['count']:,}",
                "offsets": report.span_words(one.get("first_offset"), one["count"]),
                "producer": producer_words(one),
                "sequences": report.span_words(one.get("first_sequence"), one["count"]),
                "instance": one.get("instance") or "–",
                "command": report.read_command(window["topic"], one, live=live, offline=offline),
            }
            for one in report.records(window)
        ],
        more=report.unnamed(window),
        changes=[_change(one) for one in changes],
    )  # fmt: skip


def producer_words(record: Mapping[str, Any]) -> str:
    """Return a record's producer id and epoch."""
    return "–" if record.get("producer_id") is None else f"{record['producer_id']} epoch {record['producer_epoch']}"


def window_words(one: Window) -> str:
    """Return the window's day and borders."""
    words = report.time_words(one)
    return words if not words[-1].isdigit() or report.is_day(one) else f"{words} – {utc(one['window_end_ms'])[-8:-3]}"


def cells(one: Window, tiers: Sequence[str]) -> list[CellView]:
    """Return the counts of `tiers`, in that order, each with how it differs from the tier before it."""
    less: Counter[str] = Counter()
    more: Counter[str] = Counter()
    altered: Counter[str] = Counter()
    for difference in one["differences"]:
        less[difference["tier"]] += difference["missing"]
        more[difference["tier"]] += difference["doubled"]
        altered[difference["tier"]] += difference["altered"]
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
        else:
            views.append(CellView(f"{count:,} silent" if is_silent else f"{count:,}", "unknown" if is_silent else "ok"))
    return views


def _row(one: Window, tiers: Sequence[str]) -> dict[str, Any]:
    return {
        "start": None if report.is_day(one) else one["window_start_ms"],
        "time": window_words(one),
        "cells": cells(one, tiers),
        "quarantined": f"{one['quarantined']:,}",
        "verdict": one["verdict"],
        "missing": f"{one['missing']:,}",
        "doubled": f"{one['doubled']:,}",
        "altered": f"{one['altered']:,}",
        "late": f"{one.get('late', 0):,}",
        "why": report.why_words(one),
    }


def _change(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "at": utc(one["at_ms"]),
        "window": utc(one["window_start_ms"]),
        "before": one["from_verdict"] or "new",
        "after": one["to_verdict"],
        "missing": one["missing"],
        "doubled": one["doubled"],
        "altered": one["altered"],
        "reason": one["reason"],
    }


def _why(window: Mapping[str, Any]) -> str:
    words = report.why_words(window)
    return f"{window['reason']}; {words}" if window["verdict"] == "COMPLETE" else words
