"""The audit's answers in words for people, for the page and the terminal. Judges nothing; a window is its JSON object."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ...model.tiers import CHAIN, LIVE, MIRROR, OFFLINE, PRODUCER, WAREHOUSE, in_order
from ...model.windows import in_words

STYLE = {
    "COMPLETE": "",
    "ACCOUNTED": "bold cyan",
    "ACCEPTED": "bold cyan",
    "INCOMPLETE": "bold red",
    "ALTERED": "bold red",
    "DOUBLED": "bold yellow",
    "OPEN": "dim",
    "UNKNOWN": "bold magenta",
}
"""Verdict → style of its row on a terminal; the words say the same."""

DAY_MS = 86_400_000


def tiers(windows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return every tier that the windows name, in order."""
    return in_order(tier for window in windows for tier in window["tiers"])


def count_words(count: int | None) -> str:
    """Return a count; a tier that has not reported has none, which is not zero."""
    return "–" if count is None else f"{count:,}"


def time_words(window: Mapping[str, Any]) -> str:
    """Return the window's day and start in UTC; of a whole day only the day."""
    words = in_words(window["window_start_ms"])
    return words[:10] if is_day(window) and words[-1].isdigit() else words


def is_day(window: Mapping[str, Any]) -> bool:
    """Return whether the object is a day of windows that were added up."""
    return "windows" in window


def verdict_words(window: Mapping[str, Any]) -> str:
    """Return the verdict with its figures: INCOMPLETE(missing 3)."""
    parts = [f"{name} {window[name]:,}" for name in ("missing", "doubled", "altered") if window[name]]
    if window["verdict"] == "ACCOUNTED":
        parts += [f"{name} {count:,}" for name, count in sorted(window["accounted"].items()) if count]
    return f"{window['verdict']}({', '.join(parts)})" if parts else str(window["verdict"])


def why_words(window: Mapping[str, Any]) -> str:
    """Return the reason where there is something to explain, and what is not in a column."""
    words = [] if window["verdict"] == "COMPLETE" else [window["reason"]]
    words += [
        f"{count:,} {name.replace('_', ' ')}"
        for name, count in sorted(window["losses"].items())
        if count and name != "quarantined"
    ]
    words += [f"{name} {window[name]:,}" for name in ("unaudited", "redelivered", "erased", "late") if window.get(name)]
    words.append(compared_words(window))
    words.append(repaired_words(window))
    words += sink_words(window)
    if is_day(window):
        words.append(", ".join(f"{count:,} {verdict}" for verdict, count in window["windows"].items()))
    return "; ".join(word for word in words if word)


def compared_words(window: Mapping[str, Any]) -> str:
    """Return how much the verdict stands on; of a day, in the fewest tiers. Empty for verdicts of before 2026-11-24."""
    if "compared_tiers" not in window:
        return ""
    identities, tiers = window["compared_identities"], window["compared_tiers"]
    return f"{identities:,} record{'' if identities == 1 else 's'} compared in {tiers} tier{'' if tiers == 1 else 's'}"


def repaired_words(window: Mapping[str, Any]) -> str:
    """Return how many records were damaged in one replica and repaired from another, by tier; empty without any."""
    counts: Mapping[str, int] = window.get("repaired") or {}
    return ", ".join(f"{count:,} repaired in {tier}" for tier, count in counts.items())


def sink_words(window: Mapping[str, Any]) -> list[str]:
    """Return a line for each sink: its verdict on its own, its figures, and why it is not COMPLETE."""
    lines = []
    for name, row in sorted((window.get("sinks") or {}).items()):
        figures = [f"{what} {row[what]:,}" for what in ("missing", "doubled", "altered") if row[what]]
        figures += [f"{what} {count:,}" for what, count in sorted(row["losses"].items()) if count]
        words = f"{name} {row['verdict']}" + (f"({', '.join(figures)})" if figures else "")
        lines.append(
            f"{words}: {row['reason']}" if row["verdict"] in ("OPEN", "UNKNOWN") else f"{words} {count_words(row['count'])}"
        )
    return lines


def _differences(window: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = (window.get("sinks") or {}).values()
    return [*window["differences"], *(one for row in rows for one in row["differences"])]


def records(window: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every range of records that the differences of a window and its sinks name, each with its tier and partition."""
    return [
        {"tier": one["tier"], "partition": one["partition"], **record}
        for one in _differences(window)
        for record in one["records"]
    ]


def unnamed(window: Mapping[str, Any]) -> list[str]:
    """Return a line for each difference that names more ranges than it lists."""
    return [
        f"{one['tier']}, partition {one['partition']}: and {one['more']:,} more records"
        for one in _differences(window)
        if one["more"]
    ]


def span_words(first: int | None, count: int) -> str:
    """Return numbers from the first to the last."""
    if first is None:
        return "–"
    return f"{first}" if count == 1 else f"{first} to {first + count - 1}"


def read_command(topic: str, record: Mapping[str, Any], *, live: str, offline: str | None) -> str | None:
    """Return the command that reads a record of `records` where it still is; None where it is nowhere.

    What a tier lacks stands in the tier before it; what it holds twice or changed stands in itself.
    """
    first = record.get("first_offset")
    if first is None:
        return None
    tier = record["tier"]
    if record["kind"] == "missing":
        before = LIVE if tier not in CHAIN else CHAIN[max(0, CHAIN.index(tier) - 1)]
        tier = LIVE if before == MIRROR else before
    if tier == PRODUCER:
        return None
    if tier == WAREHOUSE or tier not in CHAIN:
        tier = OFFLINE if tier == WAREHOUSE else LIVE
    bootstrap = live if tier == LIVE or offline is None else offline
    return f"kcat -C -b {bootstrap} -t {shlex.quote(topic)} -p {record['partition']} -o {first} -c {record['count']} -e"
