"""What the service stores beside the tier reports: verdicts and their changes, unreadable ranges, messages that were no reports.

Each list is bounded: the oldest entries go.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from ...model.tier_reports import LogKey
from .database import Database

MOST_CHANGES = 100_000
MOST_NOTES = 10_000


class VerdictChange(NamedTuple):
    """One row of `verdict_changes`."""

    at_ms: int
    topic: str
    window_start_ms: int
    from_verdict: str | None
    to_verdict: str
    missing: int
    extra: int
    first_bad_tier: str | None
    reason: str


class AuditLog:
    """Reads and writes these lists, in the transaction that the caller has begun."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note_unreadable(self, key: LogKey, from_offset: int, to_offset: int, reason: str, at_ms: int) -> None:
        """Store that a range of a log could not be read and so was not counted."""
        self._database.do(
            "INSERT INTO unreadable (tier, topic, partition, from_offset, to_offset, reason, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*key, from_offset, to_offset, reason, at_ms),
        )
        self._database.do("DELETE FROM unreadable WHERE number <= (SELECT max(number) FROM unreadable) - ?", (MOST_NOTES,))

    def unreadable(self, topic: str | None = None) -> list[dict[str, Any]]:
        """Return the ranges that could not be read, oldest first."""
        names = ("tier", "topic", "partition", "from_offset", "to_offset", "reason", "at_ms")
        rows = self._database.rows(
            f"SELECT {', '.join(names)} FROM unreadable WHERE ? IS NULL OR topic = ? ORDER BY number", (topic, topic)
        )
        return [dict(zip(names, row, strict=True)) for row in rows]

    def note_malformed(self, partition: int, offset: int, reason: str, at_ms: int) -> None:
        """Store a message that is no report, and count it."""
        self._database.do(
            "INSERT INTO malformed (partition, offset, reason, at_ms) VALUES (?, ?, ?, ?)", (partition, offset, reason, at_ms)
        )
        self._database.do("DELETE FROM malformed WHERE number <= (SELECT max(number) FROM malformed) - ?", (MOST_NOTES,))
        self._database.put_fact("malformed", self.malformed_count() + 1)

    def malformed_count(self) -> int:
        """Return how many messages on the audit topic were no reports."""
        return int(self._database.fact("malformed") or 0)

    def verdicts(self) -> dict[tuple[str, int], tuple[str, int, int, str | None]]:
        """Return (topic, window start) → (verdict, missing, extra, first bad tier) as last stored."""
        rows = self._database.rows("SELECT topic, window_start_ms, verdict, missing, extra, first_bad_tier FROM verdicts")
        return {(topic, start): (verdict, missing, extra, first) for topic, start, verdict, missing, extra, first in rows}

    def put_verdicts(self, changes: Iterable[VerdictChange]) -> None:
        """Store changes and what the verdicts are now."""
        rows = list(changes)
        self._database.do_many(
            "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (one.topic, one.window_start_ms, one.to_verdict, one.missing, one.extra, one.first_bad_tier, one.at_ms)
                for one in rows
            ],
        )
        self._database.do_many(
            f"INSERT INTO verdict_changes ({', '.join(VerdictChange._fields)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
        )
        self._database.do(
            "DELETE FROM verdict_changes WHERE number <= (SELECT max(number) FROM verdict_changes) - ?", (MOST_CHANGES,)
        )

    def drop_verdicts(self, topic: str, window_start_ms: int) -> None:
        """Forget the verdict on a window that no tier mentions any more."""
        self._database.do("DELETE FROM verdicts WHERE topic = ? AND window_start_ms = ?", (topic, window_start_ms))

    def verdict_changes(self, topic: str | None, limit: int) -> list[dict[str, Any]]:
        """Return the latest changes, newest first."""
        rows = self._database.rows(
            f"SELECT {', '.join(VerdictChange._fields)} FROM verdict_changes"
            " WHERE ? IS NULL OR topic = ? ORDER BY number DESC LIMIT ?",
            (topic, topic, limit),
        )
        return [VerdictChange(*row)._asdict() for row in rows]
