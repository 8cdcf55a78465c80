"""What the service stores beside the tier reports: changes of verdicts, unreadable ranges, messages that were no reports.

Each list is bounded: the oldest entries go.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ...model.tier_reports import LogKey
from .database import Database
from .tables import Row

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
    doubled: int
    altered: int
    first_bad_tier: str | None
    reason: str


class AuditLog:
    """Reads and writes these lists, in the transaction that the caller has begun."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note_unreadable(self, key: LogKey, from_offset: int, to_offset: int, reason: str, at_ms: int) -> bool:
        """Store that a range of a log could not be read and so was not counted; return False where that is known."""
        known = self._database.rows(
            "SELECT 1 FROM unreadable WHERE topic = ? AND tier = ? AND partition = ? AND from_offset = ? AND to_offset = ?",
            (key.topic, key.tier, key.partition, from_offset, to_offset),
        )
        if known:
            return False
        self._append("unreadable", [(*key, from_offset, to_offset, reason, at_ms)], MOST_NOTES)
        return True

    def unreadable(self, topic: str | None = None) -> list[dict[str, Any]]:
        """Return the ranges that could not be read, oldest first."""
        names = ("tier", "topic", "partition", "from_offset", "to_offset", "reason", "at_ms")
        where, values = ("", ()) if topic is None else (" WHERE topic = ?", (topic,))
        rows = self._database.rows(f"SELECT {', '.join(names)} FROM unreadable{where} ORDER BY number", values)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def note_malformed(self, partition: int, offset: int, reason: str, at_ms: int) -> None:
        """Store a message that is not a report, and count it."""
        self._append("malformed", [(partition, offset, reason, at_ms)], MOST_NOTES)
        self._database.put_fact("malformed", self.malformed_count() + 1)

    def malformed_count(self) -> int:
        """Return how many messages on the audit topic were no reports."""
        return int(self._database.fact("malformed") or 0)

    def note_reports_lost(self) -> None:
        """Count that the audit topic was found without what was to be read next."""
        self._database.put_fact("reports_lost", self.reports_lost_count() + 1)

    def reports_lost_count(self) -> int:
        """Return how often that was so."""
        return int(self._database.fact("reports_lost") or 0)

    def note_changes(self, changes: Iterable[VerdictChange]) -> None:
        """Store changes of verdicts."""
        self._append("verdict_changes", list(changes), MOST_CHANGES)

    def _append(self, table: str, rows: Sequence[Row], most: int) -> None:
        self._database.append(table, rows)
        self._database.delete_where(table, f"number <= (SELECT max(number) FROM {table}) - ?", (most,))

    def last_change(self) -> int | None:
        """Return the number of the latest change of a verdict, None where there is none."""
        ((number,),) = self._database.rows("SELECT max(number) FROM verdict_changes")
        return None if number is None else int(number)

    def verdict_changes(self, topic: str | None, limit: int, window_start_ms: int | None = None) -> list[dict[str, Any]]:
        """Return the latest changes (of a topic, of one of its windows), newest first."""
        asked = [("topic = ?", topic), ("window_start_ms = ?", window_start_ms)]
        where = " AND ".join(condition for condition, value in asked if value is not None)
        rows = self._database.rows(
            f"SELECT {', '.join(VerdictChange._fields)} FROM verdict_changes"
            f"{' WHERE ' + where if where else ''} ORDER BY number DESC LIMIT ?",
            (*(value for _, value in asked if value is not None), limit),
        )
        return [VerdictChange(*row)._asdict() for row in rows]
