"""Adds to windows how many of their records lie in ranges that were repaired: information beside the verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..repairs import Repairs
from ..store.ledger import Ledger
from ..store.log_books import MADE_ANEW


def with_repaired(ledger: Ledger, repairs: Repairs, windows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the windows, those with such records with `repaired`: tier → how many. Days are returned as they are: the offsets
    of their records are not kept.
    """
    starts: dict[str, list[int]] = {}
    for one in windows:
        if "windows" not in one and repairs.is_known(one["topic"]):
            starts.setdefault(one["topic"], []).append(one["window_start_ms"])
    if not starts:
        return list(windows)
    counts = {topic: _of_topic(ledger, repairs, topic, mine) for topic, mine in starts.items()}
    return [
        {**one, "repaired": mine} if (mine := counts.get(one["topic"], {}).get(one["window_start_ms"])) else one
        for one in windows
    ]


def _of_topic(ledger: Ledger, repairs: Repairs, topic: str, starts: Sequence[int]) -> dict[int, dict[str, int]]:
    with ledger.books.lock:
        # What was repaired of an earlier topic of the name had the same offsets.
        since_ms = int(ledger.books.database.fact(MADE_ANEW + topic) or 0)
        return ledger.books.look(topic, lambda book: repairs.of(topic, book, starts, since_ms)) or {}
