"""What one page of the console shows, in one answer: no more than it shows. Reads what the judge's last round left."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..repairs import Repairs
from ..store.ledger import Ledger
from ..store.verdicts import Verdicts
from .repaired import with_repaired

WINDOWS = 100
DAYS = 90
CHANGES = 15
PRODUCERS = 50
MOST_NAMED = 5
FIGURES = ("missing", "doubled", "altered")
LEFT_OUT = ("sinks", "differences", "offsets", "unknown")
"""What a row of a table does not show, or not as it is stored."""
Window = Mapping[str, Any]


def topic_page(ledger: Ledger, repairs: Repairs, topic: str, before: int | None) -> dict[str, Any]:
    """Return the topic's latest windows (those before `before`), newest first, and what else its page shows."""

    def rows(stored: Verdicts) -> tuple[Sequence[Window], Sequence[Window]]:
        windows = stored.newest(topic, before=before, limit=WINDOWS)
        return windows, stored.newest(topic, days=True, limit=DAYS)

    windows, days = ledger.books.verdict(rows)
    return {
        "is_known": topic in ledger.books.topics(),
        "windows": [brief(one) for one in with_repaired(ledger, repairs, windows)],
        "before": windows[-1]["window_start_ms"] if len(windows) == WINDOWS else None,
        "days": [brief(one) for one in days],
        "changes": ledger.books.ask(lambda notes: notes.verdict_changes(topic, CHANGES)),
        "producers": ledger.unsealed(topic)[:PRODUCERS],
        "latencies": ledger.latencies_of(topic),
    }


def problems(ledger: Ledger, faults: Sequence[str], *, limit: int, quiet_ms: int) -> dict[str, Any]:
    """Return `windows` (by topic and verdict, of what is not as it should be), `faults`, and `quiet`: how many producers have
    sent neither their final report nor anything else for `quiet_ms`, and the first of them.
    """
    quiet = [one["instance"] for one in ledger.unsealed() if one["silent_ms"] >= quiet_ms and one["retired"] is None]
    return {
        "windows": ledger.books.verdict(lambda stored: stored.troubles(limit)),
        "faults": list(faults),
        "quiet": {"count": len(quiet), "instances": quiet[:MOST_NAMED]},
    }


def producers(ledger: Ledger, q: str, limit: int) -> dict[str, Any]:
    """Return the producers that have not sent their final report, whose names or topics contain `q`: the one heard longest ago
    first, at most `limit`, and how many there are in all.
    """
    mine = [one for one in ledger.unsealed() if q in one["instance"] or any(q in topic for topic in one["topics"])]
    return {"producers": mine[:limit], "total": len(mine)}


def brief(window: Window) -> dict[str, Any]:
    """Return a window without what a row of a table does not show: the records of its differences, which are added up by tier,
    and of its sinks all but `readers`: how many there are, how many are not COMPLETE, and the first of these.
    """
    kept = {name: value for name, value in window.items() if name not in LEFT_OUT}
    sinks: Mapping[str, Mapping[str, Any]] = window.get("sinks") or {}
    wrong = [[name, row["verdict"]] for name, row in sorted(sinks.items()) if row["verdict"] != "COMPLETE"]
    kept["readers"] = {"count": len(sinks), "wrong": len(wrong), "named": wrong[:MOST_NAMED]}
    kept["differences"] = _by_tier(window["differences"])
    return kept


def _by_tier(differences: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    sums: dict[str, Counter[str]] = {}
    for one in differences:
        sums.setdefault(one["tier"], Counter()).update({figure: one[figure] for figure in FIGURES})
    return [{"tier": tier, **{figure: mine[figure] for figure in FIGURES}} for tier, mine in sums.items()]
