"""The rows of sinks in a window's JSON object, added up in its day's, counted by sink; what is told of their changes.
Pure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...model.facts import Difference, SinkRow

SEVERITY = ("COMPLETE", "ACCOUNTED", "ACCEPTED", "OPEN", "UNKNOWN", "DOUBLED", "ALTERED", "INCOMPLETE")
"""The verdicts, the worst last."""
NUMBERS = ("missing", "doubled", "altered", "quarantined")
WRONG = ("DOUBLED", "ALTERED", "INCOMPLETE")
UNDECIDED = ("OPEN", "UNKNOWN")
_TOLD = ("missing", "doubled", "altered", "reason")
Rows = Mapping[str, Mapping[str, Any]]


class SinkTotals(NamedTuple):
    """Of one sink in all windows of a topic that are kept one by one."""

    topic: str
    sink: str
    windows: Mapping[str, int]
    """Verdict of its row → windows."""
    numbers: Mapping[str, int]
    """`NUMBERS` → records."""


class SinkTally:
    """Windows and records by topic and sink. Bounded by the windows that are kept: who is in none of them is not here."""

    def __init__(self, windows: Iterable[Mapping[str, Any]] = ()) -> None:
        self._counts: dict[str, dict[str, Counter[str]]] = {}
        for window in windows:
            self.add(window)

    def add(self, window: Mapping[str, Any], by: int = 1) -> None:
        """Count a window; with -1 take it out again, as it was counted."""
        topic = window["topic"]
        for name, row in window["sinks"].items():
            counts = self._counts.setdefault(topic, {}).setdefault(name, Counter())
            counts[row["verdict"]] += by
            for number in NUMBERS:
                counts[number] += by * row[number]
            if not any(counts.values()):
                del self._counts[topic][name]
        if not self._counts.get(topic, True):
            del self._counts[topic]

    def undecided_topics(self) -> list[str]:
        """Return the topics of which time alone may change a sink's row."""
        return [topic for topic in self._counts if self.is_undecided(topic)]

    def is_undecided(self, topic: str) -> bool:
        """Return whether time alone may change a sink's row of the topic."""
        return any(counts[verdict] for counts in self._counts.get(topic, {}).values() for verdict in UNDECIDED)

    def totals(self) -> list[SinkTotals]:
        """Return the totals of each sink of each topic, by name."""
        return [
            SinkTotals(
                topic,
                name,
                {verdict: counts[verdict] for verdict in SEVERITY if counts[verdict]},
                {number: counts[number] for number in NUMBERS},
            )
            for topic, sinks in sorted(self._counts.items())
            for name, counts in sorted(sinks.items())
        ]


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
    return any(row["verdict"] in UNDECIDED for row in window["sinks"].values())


def turns(before: Rows, after: Rows) -> list[dict[str, Any]]:
    """Return what is to be reported of a window's sinks: rows that became wrong, are wrong in other numbers, or ceased to be."""
    found = []
    for name, row in after.items():
        was = before.get(name)
        is_new = was is None or any(was[one] != row[one] for one in ("verdict", "missing", "doubled", "altered"))
        if is_new and (row["verdict"] in WRONG or (was is not None and was["verdict"] in WRONG)):
            from_verdict = None if was is None else was["verdict"]
            found.append(
                {"sink": name, "from_verdict": from_verdict, "to_verdict": row["verdict"], **{one: row[one] for one in _TOLD}}
            )
    return found


def in_a_day(rows: Rows) -> dict[str, Any]:
    """Return the rows of a window that is added to its day: nothing waits any more, and which records differed is forgotten."""
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
            for name in ("kind", "first_offset", "count", "producer_id", "producer_epoch", "first_sequence", "instance", "stray")
            if (value := getattr(record, name)) is not None
        }
        for record in one.records
    ]
    return {
        "tier": one.tier,
        "partition": one.partition,
        "digest": one.digest,
        "missing": one.missing,
        "doubled": one.doubled,
        "altered": one.altered,
        "records": records,
        "more": one.more,
    }
