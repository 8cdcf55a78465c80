"""What one tier has accounted for in one partition: the offsets, those it could not read, and since when. Pure.

Which records it found there is in the windows' books. Offsets below `begins_at` were gone before the tier could count them:
it is unknown what it held there.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .messages import Skipped
from .packed_rows import Row, Rows, joined
from .tiers import READ_BACK

MOST = 1_024
"""Ranges with gaps between them, and skipped ranges, that are kept of one partition.

What would need more is not taken, which leaves a gap: never complete.
"""
MOST_FIRSTS = 10_000
MOST_STRANGERS = 1_000
OTHERS = -1
"""Among the strangers: all ids beyond `MOST_STRANGERS`."""


@dataclass(slots=True)
class TierLog:
    """One tier's view of one partition."""

    begins_at: int
    moved_ms: int
    """When the coverage last grew, or the tier was first heard of there."""
    caught_up_ms: int | None = None
    """Read-back tiers: the latest moment at which the log was asked for its end and all up to it is read."""
    coverage: list[tuple[int, int]] = field(default_factory=list)
    """Offsets accounted for, as the fewest half-open ranges, in order."""
    skipped: list[Skipped] = field(default_factory=list)
    """Offsets inside the coverage that the tier could not read, in order."""
    firsts: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """The live log where something was unreadable: (producer id, epoch) → (offset, sequence) of its first batch behind that."""

    strangers: dict[int, int] = field(default_factory=dict)
    """The live log: producer id → lowest offset of a batch that our builder marked, of ids that nobody had announced when it was
    read. See `checks.unheard`.
    """
    former_below: int = 0
    """The live log: below this, offsets that were to be read again may hold something else than they did. See `checks.former`."""
    expired_below: int = 0
    """The quarantine's log: what was counted below this has been deleted since. See `checks.quarantine`."""
    note: str = ""
    """Why the tier makes no progress, in its own words, if an operator has paused it. It says so at intervals: kept in memory
    alone.
    """

    @property
    def position(self) -> int:
        """Where the accounted offsets end."""
        return self.coverage[-1][1] if self.coverage else self.begins_at

    def covers(self, from_offset: int, to_offset: int) -> bool:
        """Return whether every offset of [from_offset, to_offset) is accounted for."""
        if from_offset >= to_offset:
            return True
        at = bisect_right(self.coverage, from_offset, key=lambda one: one[0]) - 1
        return at >= 0 and self.coverage[at][1] >= to_offset

    def touches(self, from_offset: int, to_offset: int) -> bool:
        """Return whether anything of [from_offset, to_offset) is accounted for."""
        return any(start < to_offset and from_offset < end for start, end in self.coverage)

    def has_room(self, from_offset: int, to_offset: int, skipped: Sequence[Skipped]) -> bool:
        """Return whether a range can be remembered within the bounds."""
        return (
            len(self.coverage) < MOST or any(start <= to_offset and from_offset <= end for start, end in self.coverage)
        ) and len(self.skipped) + len(skipped) < MOST

    def cover(self, from_offset: int, to_offset: int, skipped: Iterable[Skipped]) -> bool:
        """Account for [from_offset, to_offset); return whether the coverage grew."""
        grew = not self.covers(from_offset, to_offset)
        if grew:
            self.coverage = _united([*self.coverage, (from_offset, to_offset)])
        self.skipped = _joined([*_without(self.skipped, from_offset, to_offset), *skipped])
        return grew

    def uncover_from(self, offset: int) -> None:
        """Forget what is at or above `offset`."""
        self.coverage = [(start, min(end, offset)) for start, end in self.coverage if start < offset]
        self.skipped = [Skipped(one[0], min(one[1], offset), one[2]) for one in self.skipped if one[0] < offset]
        self.firsts = {key: first for key, first in self.firsts.items() if first[0] < offset}
        self.strangers = {name: first for name, first in self.strangers.items() if first < offset}

    def unread(self, reasons: Iterable[str] = ("expired", "deleted")) -> list[tuple[int, int]]:
        """Return the offsets of which it is unknown what the tier held: skipped for one of the reasons, or before it began."""
        ranges = [(0, self.begins_at)] if self.begins_at else []
        return ranges + [(one.from_offset, one.to_offset) for one in self.skipped if one.reason in reasons]

    def skipped_as(self, reason: str) -> list[tuple[int, int]]:
        """Return the offsets that were skipped for this reason: gone before the tier could read them (expired), say."""
        return [(one.from_offset, one.to_offset) for one in self.skipped if one.reason == reason]

    def note_firsts(self, batches: Iterable[Row]) -> None:
        """Note each producer's first batch behind what could not be read: what it sent later is not hidden there."""
        unread = self.unread()
        if not unread:
            return
        behind = max(end for _, end in unread)
        self.firsts = {key: first for key, first in self.firsts.items() if first[0] >= behind}
        for offset, _, _, producer_id, epoch, sequence in batches:
            if producer_id < 0 or offset < behind:
                continue
            known = self.firsts.get((producer_id, epoch))
            if known is None and len(self.firsts) >= MOST_FIRSTS:
                continue
            if known is None or offset < known[0]:
                self.firsts[producer_id, epoch] = (offset, sequence)

    def words(self) -> dict[str, Any]:
        """Return the log as values for JSON; `from_words` takes them back."""
        return {
            "begins_at": self.begins_at,
            "moved_ms": self.moved_ms,
            "caught_up_ms": self.caught_up_ms,
            "coverage": self.coverage,
            "skipped": self.skipped,
            "firsts": [[*key, *first] for key, first in self.firsts.items()],
            "strangers": list(self.strangers.items()),
            "former_below": self.former_below,
            "expired_below": self.expired_below,
        }

    @classmethod
    def from_words(cls, words: dict[str, Any]) -> "TierLog":
        return cls(
            begins_at=words["begins_at"],
            moved_ms=words["moved_ms"],
            caught_up_ms=words["caught_up_ms"],
            coverage=[(start, end) for start, end in words["coverage"]],
            skipped=[Skipped(*one) for one in words["skipped"]],
            firsts={(producer_id, epoch): (offset, sequence) for producer_id, epoch, offset, sequence in words["firsts"]},
            # Stores written before 2026-11-24 have none.
            strangers={name: first for name, first in words.get("strangers", ())},
            former_below=words.get("former_below", 0),
            expired_below=words.get("expired_below", 0),
        )


def _united(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    united: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end))
        else:
            united.append((start, end))
    return united


def _without(skipped: Iterable[Skipped], from_offset: int, to_offset: int) -> list[Skipped]:
    left = []
    for one in skipped:
        if one.from_offset < from_offset:
            left.append(Skipped(one.from_offset, min(one.to_offset, from_offset), one.reason))
        if to_offset < one.to_offset:
            left.append(Skipped(max(one.from_offset, to_offset), one.to_offset, one.reason))
    return left


def _joined(skipped: Iterable[Skipped]) -> list[Skipped]:
    joined: list[Skipped] = []
    for one in sorted(skipped):
        if one.from_offset == one.to_offset:
            continue
        if joined and joined[-1].to_offset == one.from_offset and joined[-1].reason == one.reason:
            joined[-1] = Skipped(joined[-1].from_offset, one.to_offset, one.reason)
        else:
            joined.append(one)
    return joined


def accounts_for(tier: str, log: TierLog | None, rows: Rows, up_to: int | None = None) -> bool:
    """Return whether the tier has said what became of every record in `rows`, at most up to the offset `up_to`.

    A tier that the audit reads back began where its log began: of what lies before, nobody can say more.
    """
    if not rows:
        return True
    if log is None:
        return False
    begins_at = log.begins_at if tier in READ_BACK else 0
    up_to = rows.end if up_to is None else up_to
    if log.covers(max(rows.first, begins_at), min(rows.end, up_to)):
        return True
    return all(log.covers(max(start, begins_at), min(end, up_to)) for start, end in joined(rows))
