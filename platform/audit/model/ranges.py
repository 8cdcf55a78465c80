"""Which offsets of one partition a tier has accounted for, and what it found in each window there. Pure; one tier's
partition each.

Ranges are disjoint. A new one that contains earlier ones replaces them; one inside what is known is a redelivery and
changes no count; one that only partly overlaps is not taken at all, for nobody can say which of its records lie in the
overlap.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from .messages import RangeWindow

KEEP = 64
"""Borders of the youngest ranges that are remembered, so that a repeated report finds the borders it had.

Older ones are merged.
"""
MOST = 1_024
"""Ranges that cannot be merged because of gaps.

Beyond it a range that touches none is not taken, which leaves a gap: never complete.
"""


class Outcome(Enum):
    """What became of a range that was told."""

    ADDED = "added"
    REPLACED = "replaced earlier ranges"
    REDELIVERED = "known already"
    OVERLAPPING = "partly overlaps what is known: not taken, a gap"


@dataclass(slots=True)
class WindowSum:
    """What a range holds of one window."""

    count: int
    quarantined: int
    first_offset: int
    end_offset: int
    """All of the window's records in the range lie in [first_offset, end_offset)."""

    def take_in(self, other: "WindowSum") -> None:
        self.count += other.count
        self.quarantined += other.quarantined
        self.first_offset = min(self.first_offset, other.first_offset)
        self.end_offset = max(self.end_offset, other.end_offset)


@dataclass(slots=True)
class AcceptedRange:
    """[from_offset, to_offset) and what was found there."""

    from_offset: int
    to_offset: int
    windows: dict[int, WindowSum] = field(default_factory=dict)


@dataclass(slots=True)
class Change:
    """What one call did, so that a store can follow."""

    outcome: Outcome
    dropped: list[int] = field(default_factory=list)
    """`from_offset` of ranges that are no more."""
    written: dict[int, set[int]] = field(default_factory=dict)
    """`from_offset` of a range that is new or changed → its windows that are new or changed."""
    windows: set[int] = field(default_factory=set)
    """Windows whose sum over all ranges may have changed."""
    redelivered: dict[int, int] = field(default_factory=dict)
    """Window → records that were told a second time."""


class Ranges:
    """The accepted ranges of one tier in one partition, by offset."""

    def __init__(self, accepted: Iterable[AcceptedRange] = (), *, keep: int = KEEP, most: int = MOST) -> None:
        self._ranges: list[AcceptedRange] = sorted(accepted, key=lambda one: one.from_offset)
        self._keep = keep
        self._most = most
        self._coverage: list[tuple[int, int]] | None = None

    def __iter__(self) -> Iterator[AcceptedRange]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def starting_at(self, from_offset: int) -> AcceptedRange:
        return next(one for one in self._ranges if one.from_offset == from_offset)

    def coverage(self) -> list[tuple[int, int]]:
        """Return the offsets that are accounted for, as the fewest half-open ranges, in order."""
        if self._coverage is None:
            joined: list[tuple[int, int]] = []
            for one in self._ranges:
                if joined and joined[-1][1] == one.from_offset:
                    joined[-1] = (joined[-1][0], one.to_offset)
                else:
                    joined.append((one.from_offset, one.to_offset))
            self._coverage = joined
        return self._coverage

    def total(self, window_start_ms: int) -> WindowSum | None:
        """Return the window's sum over all ranges, or None when none holds any of it."""
        total: WindowSum | None = None
        for one in self._ranges:
            part = one.windows.get(window_start_ms)
            if part is None:
                continue
            if total is None:
                total = WindowSum(part.count, part.quarantined, part.first_offset, part.end_offset)
            else:
                total.take_in(part)
        return total

    def totals(self) -> dict[int, WindowSum]:
        """Return every window's sum over all ranges."""
        totals: dict[int, WindowSum] = {}
        for one in self._ranges:
            for start, part in one.windows.items():
                total = totals.get(start)
                if total is None:
                    totals[start] = WindowSum(part.count, part.quarantined, part.first_offset, part.end_offset)
                else:
                    total.take_in(part)
        return totals

    def extend(self, to_offset: int, windows: Mapping[int, WindowSum], *, begins_at: int = 0) -> Change:
        """Add what was read right behind the last range (one reader, each offset once).

        `begins_at` is where a first range begins.
        """
        change = Change(Outcome.ADDED, windows=set(windows))
        if not self._ranges:
            self._ranges.append(AcceptedRange(begins_at, begins_at))
        last = self._ranges[-1]
        last.to_offset = max(last.to_offset, to_offset)
        for start, found in windows.items():
            mine = last.windows.get(start)
            if mine is None:
                last.windows[start] = WindowSum(found.count, found.quarantined, found.first_offset, found.end_offset)
            else:
                mine.take_in(found)
        change.written[last.from_offset] = set(windows)
        self._coverage = None
        return change

    def accept(self, from_offset: int, to_offset: int, windows: Mapping[int, RangeWindow]) -> Change:
        """Take a range that was told, or say why not. An empty range changes nothing."""
        told = {start: one for start, one in windows.items() if one.count or one.quarantined}
        if from_offset == to_offset:
            return Change(Outcome.ADDED)
        touched = [one for one in self._ranges if one.from_offset < to_offset and from_offset < one.to_offset]
        if not touched:
            return self._add(from_offset, to_offset, told, Change(Outcome.ADDED))
        if all(from_offset <= one.from_offset and one.to_offset <= to_offset for one in touched):
            return self._replace(touched, from_offset, to_offset, told)
        if any(start <= from_offset and to_offset <= end for start, end in self.coverage()):
            return self._redelivered(touched, from_offset, to_offset, told)
        return Change(Outcome.OVERLAPPING)

    def _add(self, from_offset: int, to_offset: int, told: Mapping[int, RangeWindow], change: Change) -> Change:
        if len(self._ranges) >= self._most:
            return Change(Outcome.OVERLAPPING)
        sums = {start: WindowSum(one.count, one.quarantined, from_offset, to_offset) for start, one in told.items()}
        at = bisect_right(self._ranges, from_offset, key=lambda one: one.from_offset)
        self._ranges.insert(at, AcceptedRange(from_offset, to_offset, sums))
        self._coverage = None
        change.written[from_offset] = set(sums)
        change.windows |= set(sums)
        self._merge_old(change)
        return change

    def _replace(self, old: list[AcceptedRange], from_offset: int, to_offset: int, told: Mapping[int, RangeWindow]) -> Change:
        change = Change(Outcome.REPLACED, dropped=[one.from_offset for one in old])
        for one in old:
            change.windows |= set(one.windows)
            for start, held in one.windows.items():
                change.redelivered[start] = change.redelivered.get(start, 0) + held.count + held.quarantined
        self._ranges = [one for one in self._ranges if one not in old]
        return self._add(from_offset, to_offset, told, change)

    def _redelivered(
        self, touched: list[AcceptedRange], from_offset: int, to_offset: int, told: Mapping[int, RangeWindow]
    ) -> Change:
        """Count nothing. But where one end of the range is a border that is known, remember the other: what follows may
        begin there.

        (A tier that fell between its report and the note of it begins again at an older border, with other steps.) The
        counts on both sides of the new border follow by subtraction from ranges that are known; nothing is guessed.
        """
        change = Change(Outcome.REDELIVERED)
        change.redelivered = {start: one.count + one.quarantined for start, one in told.items()}
        at_start, at_end = from_offset == touched[0].from_offset, to_offset == touched[-1].to_offset
        if at_start == at_end:
            return change
        cut, whole = (touched[-1], touched[:-1]) if at_start else (touched[0], touched[1:])
        border = to_offset if at_start else from_offset
        spoken = {start: (one.count, one.quarantined) for start, one in told.items()}
        inner = _less(spoken, *(_sums(one) for one in whole))
        outer = _less(_sums(cut), inner) if inner is not None else None
        if inner is None or outer is None:
            return change  # the two readings contradict each other: what was believed first stays
        left, right = (inner, outer) if at_start else (outer, inner)
        at = self._ranges.index(cut)
        self._ranges[at : at + 1] = [
            AcceptedRange(
                start, end, {window: WindowSum(*counts, cut.from_offset, cut.to_offset) for window, counts in sums.items()}
            )
            for start, end, sums in ((cut.from_offset, border, left), (border, cut.to_offset, right))
        ]
        self._coverage = None
        change.dropped.append(cut.from_offset)
        change.written |= {cut.from_offset: set(left), border: set(right)}
        change.windows = set(cut.windows)
        return change

    def _merge_old(self, change: Change) -> None:
        while len(self._ranges) > self._keep:
            pair = next(
                (at for at in range(len(self._ranges) - 1) if self._ranges[at].to_offset == self._ranges[at + 1].from_offset),
                None,
            )
            if pair is None:
                return
            left, right = self._ranges[pair], self._ranges.pop(pair + 1)
            left.to_offset = right.to_offset
            for start, found in right.windows.items():
                if start in left.windows:
                    left.windows[start].take_in(found)
                else:
                    left.windows[start] = found
            change.written[left.from_offset] = change.written.get(left.from_offset, set()) | set(right.windows)
            change.written.pop(right.from_offset, None)
            change.dropped.append(right.from_offset)


def _sums(one: AcceptedRange) -> dict[int, tuple[int, int]]:
    return {start: (held.count, held.quarantined) for start, held in one.windows.items()}


def _less(
    minuend: Mapping[int, tuple[int, int]], *subtrahends: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[int, int]] | None:
    """Return (count, quarantined) per window after subtraction, without empty windows.

    None when anything would be below zero.
    """
    left = dict(minuend)
    for one in subtrahends:
        for start, (count, quarantined) in one.items():
            before = left.get(start, (0, 0))
            left[start] = (before[0] - count, before[1] - quarantined)
    if any(count < 0 or quarantined < 0 for count, quarantined in left.values()):
        return None
    return {start: counts for start, counts in left.items() if counts != (0, 0)}
