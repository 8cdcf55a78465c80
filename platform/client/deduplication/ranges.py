"""What was processed, as ranges of numbers by source: bounded by count and by age. Pure: the caller passes the time.

A source is a name under which each number names one record. Numbers that follow each other share a range, so a producer's records
read in order cost one range, however many there are.
"""

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple


class Range(NamedTuple):
    """Numbers [start, stop) of one source, last added to at `touched_ms`."""

    source: str
    start: int
    stop: int
    touched_ms: int


@dataclass(slots=True)
class Changes:
    """What one call changed, for a store: ranges by (source, start)."""

    put: list[Range] = field(default_factory=list)
    gone: list[tuple[str, int]] = field(default_factory=list)


class SeenRanges:
    """A bounded set of numbers by source. Forgets the ranges that were not added to for longest."""

    def __init__(self, *, most_ranges: int, longest_ms: int) -> None:
        if most_ranges < 1 or longest_ms < 1:
            raise ValueError(f"most_ranges={most_ranges}, longest_ms={longest_ms}: 1 or more of each")
        self._most_ranges, self._longest_ms = most_ranges, longest_ms
        self._starts: dict[str, list[int]] = {}
        self._ranges: OrderedDict[tuple[str, int], Range] = OrderedDict()  # the longest untouched first
        self.forgotten = 0
        """How many ranges were given up, for want of room or for age."""

    def __len__(self) -> int:
        return len(self._ranges)

    def __contains__(self, item: tuple[str, int]) -> bool:
        source, number = item
        found = self._at_or_below(source, number)
        return found is not None and number < found.stop

    def add(self, source: str, number: int, now_ms: int) -> Changes:
        """Remember a number, and forget what is too old or too many. Return what changed."""
        changes = Changes()
        before = self._at_or_below(source, number)
        if before is None or number >= before.stop:
            after = self._ranges.get((source, number + 1))
            start, stop = number, number + 1
            if before is not None and before.stop == number:
                start = before.start
                self._remove(before)
            if after is not None:
                stop = after.stop
                self._remove(after)
                changes.gone.append((source, after.start))
            self.restore(Range(source, start, stop, now_ms))
            changes.put.append(self._ranges[source, start])
        self.expire(now_ms, changes)
        return changes

    def restore(self, one: Range) -> None:
        """Put a range back, as the one touched last."""
        starts = self._starts.setdefault(one.source, [])
        starts.insert(bisect_right(starts, one.start), one.start)
        self._ranges[one.source, one.start] = one

    def expire(self, now_ms: int, changes: Changes) -> None:
        """Forget what is too old or too many."""
        while self._ranges:
            oldest = next(iter(self._ranges.values()))
            if len(self._ranges) <= self._most_ranges and now_ms - oldest.touched_ms <= self._longest_ms:
                return
            self._remove(oldest)
            changes.gone.append((oldest.source, oldest.start))
            self.forgotten += 1

    def _at_or_below(self, source: str, number: int) -> Range | None:
        starts = self._starts.get(source)
        if not starts or (index := bisect_right(starts, number)) == 0:
            return None
        return self._ranges[source, starts[index - 1]]

    def _remove(self, one: Range) -> None:
        del self._ranges[one.source, one.start]
        starts = self._starts[one.source]
        del starts[bisect_right(starts, one.start) - 1]
        if not starts:
            del self._starts[one.source]
