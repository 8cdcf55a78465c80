"""What is known of damage in this broker's replicas, and what was repaired: for answers, metrics and the audit. Pure."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from ..log import BadRange
from .messages import Key

MOST_REPAIRS = 10_000
"""Repairs that are remembered; earlier ones are forgotten. The counts continue."""
MOST_RANGES = 10_000
"""Ranges of one broker in one answer."""


class Damage(NamedTuple):
    """Half-open, by the broker's clock."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    since_ms: int
    reason: str
    is_undecided: bool = False
    """The replicas differ, and no bytes have a majority: nothing is changed."""


class Repair(NamedTuple):
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    record_count: int
    at_ms: int


class DamageCounts(NamedTuple):
    damaged_ranges: int
    undecided_ranges: int
    repaired_ranges: int
    repaired_records: int
    compared_bytes: int
    rounds: int


@dataclass(slots=True)
class DamageBook:
    """Lives on the loop thread."""

    repairs: deque[Repair] = field(default_factory=lambda: deque(maxlen=MOST_REPAIRS))
    repaired_ranges: int = 0
    repaired_records: int = 0
    compared_bytes: int = 0
    rounds: int = 0
    """Rounds of comparison that came to their end."""
    _known: dict[Key, tuple[str, dict[BadRange, int]]] = field(default_factory=dict)
    _undecided: dict[Key, tuple[str, dict[tuple[int, int], int]]] = field(default_factory=dict)

    def saw(self, key: Key, topic: str, bad_ranges: Iterable[BadRange], now_ms: int) -> list[BadRange]:
        """Take the damage of one log as it is now; return what is new."""
        before = self._known.get(key, (topic, {}))[1]
        now: dict[BadRange, int] = {}
        new: list[BadRange] = []
        for bad in bad_ranges:
            since_ms = before.get(bad)
            if since_ms is None:  # what is left of a larger range is as old as that one
                parents = [
                    ms for known, ms in before.items() if known.from_offset < bad.to_offset and bad.from_offset < known.to_offset
                ]
                since_ms = min(parents, default=now_ms)
                if not parents:
                    new.append(bad)
            now[bad] = since_ms
        if now:
            self._known[key] = topic, now
        else:
            self._known.pop(key, None)
        return new

    def repaired(self, repair: Repair) -> None:
        self.repairs.append(repair)
        self.repaired_ranges += 1
        self.repaired_records += repair.record_count

    def has_repaired(self, topic: str, partition: int, bad: BadRange, since_ms: int) -> bool:
        """Return whether a part of this range was repaired since then."""
        recent = takewhile(lambda one: one.at_ms > since_ms, reversed(self.repairs))
        return any(
            (one.topic, one.partition) == (topic, partition)
            and one.from_offset < bad.to_offset
            and bad.from_offset < one.to_offset
            for one in recent
        )

    def compared(
        self, key: Key, topic: str, from_offset: int, to_offset: int, undecided: Iterable[tuple[int, int]], now_ms: int
    ) -> list[tuple[int, int]]:
        """Take the outcome of a comparison of this range; return where the replicas differ, and that was not known."""
        of_topic = self._undecided.setdefault(key, (topic, {}))[1]
        found = list(undecided)
        for one in [one for one in of_topic if from_offset <= one[0] < to_offset and one not in found]:
            del of_topic[one]
        new = [one for one in found if one not in of_topic]
        for one in new[: max(0, MOST_RANGES - len(of_topic))]:
            of_topic[one] = now_ms
        if not of_topic:
            del self._undecided[key]
        return new

    def forget(self, key: Key) -> None:
        """Forget a replica that is not kept here any more."""
        self._known.pop(key, None)
        self._undecided.pop(key, None)

    def forget_undecided(self, key: Key) -> None:
        """Another broker leads, and compares."""
        self._undecided.pop(key, None)

    def undecided_keys(self) -> list[Key]:
        return list(self._undecided)

    def counts(self) -> DamageCounts:
        """Return the numbers for metrics. From any thread."""
        return DamageCounts(
            sum(len(ranges) for _, ranges in list(self._known.values())),
            sum(len(ranges) for _, ranges in list(self._undecided.values())),
            self.repaired_ranges,
            self.repaired_records,
            self.compared_bytes,
            self.rounds,
        )

    def damages(self) -> list[Damage]:
        """Return all known damage, in order, at most `MOST_RANGES`."""
        found = [
            Damage(topic, key[1], bad.from_offset, bad.to_offset, since_ms, bad.reason)
            for key, (topic, ranges) in self._known.items()
            for bad, since_ms in ranges.items()
        ]
        found += [
            Damage(topic, key[1], begin, end, since_ms, "the replicas differ, and no bytes have a majority", is_undecided=True)
            for key, (topic, undecided) in self._undecided.items()
            for (begin, end), since_ms in undecided.items()
        ]
        return sorted(found)[:MOST_RANGES]
