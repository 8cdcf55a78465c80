"""The rows of sinks in a window's JSON object, and added up in its day's. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...model.facts import Difference, SinkRow

SEVERITY = ("COMPLETE", "ACCOUNTED", "ACCEPTED", "OPEN", "UNKNOWN", "DOUBLED", "ALTERED", "INCOMPLETE")
"""The verdicts, the worst last."""
NUMBERS = ("missing", "doubled", "altered", "quarantined")
Rows = Mapping[str, Mapping[str, Any]]


def sinks_json(sinks: Mapping[str, SinkRow]) -> dict[str, Any]:
    """Return tier → row."""
    return {
        name: {
            "verdict": row.kind.value,
            "count": row.count,
            "missing": row.missing,
            "doubled": row.doubled,
            "altered": row.altered,
            "quarantined": row.quarantined,
            "losses": dict(row.losses),
            "silent": list(row.silent),
            "reason": row.reason,
            "differences": [difference_json(one) for one in row.differences],
        }
        for name, row in sinks.items()
    }


def is_undecided(window: Mapping[str, Any]) -> bool:
    """Return whether time alone may change a sink's row."""
    return any(row["verdict"] in ("OPEN", "UNKNOWN") for row in window["sinks"].values())


def steady(before: Rows, after: dict[str, Any]) -> dict[str, Any]:
    """Return the rows with the words of before where nothing but a silence has grown.

    Else a sink that somebody stopped would have each of its windows written anew at each look, and none would ever be old.
    """

    def facts(row: Mapping[str, Any]) -> Any:
        return {name: value for name, value in row.items() if name != "reason"}

    return {
        name: dict(before[name]) if row["verdict"] == "UNKNOWN" and name in before and facts(before[name]) == facts(row) else row
        for name, row in after.items()
    }


def in_a_day(rows: Rows) -> dict[str, Any]:
    """Return the rows of a window that is added to its day: nobody waits any more, and which records differed is forgotten."""
    return {
        name: {**row, "verdict": "UNKNOWN" if row["verdict"] == "OPEN" else row["verdict"], "differences": []}
        for name, row in rows.items()
    }


def together(day: Rows, window: Rows) -> dict[str, Any]:
    """Return the rows of a day with one more window in it: counts add up, the worst verdict and its reason stand."""
    found = {name: dict(row) for name, row in day.items()}
    for name, row in window.items():
        known = found.get(name)
        if known is None:
            found[name] = dict(row)
            continue
        worst = max(known, row, key=lambda one: SEVERITY.index(one["verdict"]))
        counts = [one["count"] for one in (known, row) if one["count"] is not None]
        found[name] = {
            **worst,
            **{number: known[number] + row[number] for number in NUMBERS},
            "count": sum(counts) if counts else None,
            "losses": dict(Counter(known["losses"]) + Counter(row["losses"])),
            "silent": list(dict.fromkeys([*known["silent"], *row["silent"]])),
        }
    return found


def difference_json(one: Difference) -> dict[str, Any]:
    """Return where a tier differs, in one partition."""
    records = [
        {
            name: value
            for name in ("kind", "first_offset", "count", "producer_id", "producer_epoch", "first_sequence", "instance")
            if (value := getattr(record, name)) is not None
        }
        for record in one.records
    ]
    return {
        "tier": one.tier,
        "partition": one.partition,
        "missing": one.missing,
        "doubled": one.doubled,
        "altered": one.altered,
        "records": records,
        "more": one.more,
    }
