"""What a comparison finds: ranges of offsets, one after another where they touch, and a bound on how many are kept. Pure."""

from dataclasses import dataclass, field, replace
from enum import Enum

from ...client.fetch.fetched import TopicPartition

MOST_KEPT = 10_000
"""Ranges that one comparison keeps by their offsets. Those behind them are counted."""


class Kind(Enum):
    """What is the matter with a range. The value is the word in the output."""

    MISSING = "missing"
    """The source holds it, the destination does not."""
    ALTERED = "altered"
    """Both hold batches there, and they differ in bytes that the CRC covers, in size or in place."""
    EXTRA = "extra"
    """The destination holds it, the source does not."""
    REFUSED = "refused"
    """Missing, and the mirror's ledger says so: the destination refused it, it is in the quarantine."""
    UNREADABLE_IN_SOURCE = "unreadable in the source"
    UNREADABLE_IN_DESTINATION = "unreadable in the destination"
    EXPIRED_IN_SOURCE = "expired in the source"
    """The source's log begins behind it now: there is nothing to compare with."""
    EXPIRED_IN_DESTINATION = "expired in the destination"
    COMPACTED_IN_SOURCE = "compacted in the source"
    """Compaction has made other batches of it since it was copied."""

    @property
    def is_difference(self) -> bool:
        return self not in _NOT_COMPARED


_NOT_COMPARED = frozenset({Kind.EXPIRED_IN_SOURCE, Kind.EXPIRED_IN_DESTINATION, Kind.COMPACTED_IN_SOURCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One range of one partition. Offsets are half-open; None on the side where they are not known, or nothing stands."""

    kind: Kind
    topic: str
    """In the source."""
    partition: int
    source: tuple[int, int] | None = None
    destination: tuple[int, int] | None = None
    batches: int = 0

    def joined(self, later: "Finding") -> "Finding | None":
        """Return both as one range if `later` continues where this one ends; else None."""
        if (self.kind, self.topic, self.partition) != (later.kind, later.topic, later.partition):
            return None
        if not (_touch(self.source, later.source) and _touch(self.destination, later.destination)):
            return None
        return replace(
            self,
            source=_union(self.source, later.source),
            destination=_union(self.destination, later.destination),
            batches=self.batches + later.batches,
        )


def _touch(first: tuple[int, int] | None, second: tuple[int, int] | None) -> bool:
    if first is None or second is None:
        return first is second
    return second[0] <= first[1]


def _union(first: tuple[int, int] | None, second: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if first is None or second is None else (min(first[0], second[0]), max(first[1], second[1]))


@dataclass(slots=True)
class Findings:
    """The findings of one comparison, in the order in which they were found. Not for two threads at once."""

    kept: list[Finding] = field(default_factory=list)
    ranges: dict[Kind, int] = field(default_factory=dict)
    """How many ranges of each kind there are, kept or not."""
    batches: int = 0
    """Batches of the source that were compared, or found in the source alone."""
    bytes: int = 0
    """Bytes of those batches."""
    most: int = MOST_KEPT
    _last: Finding | None = None

    def add(self, found: Finding) -> None:
        joined = None if self._last is None else self._last.joined(found)
        if joined is not None:
            if self.kept and self.kept[-1] is self._last:
                self.kept[-1] = joined
            self._last = joined
            return
        self._last = found
        self.ranges[found.kind] = self.ranges.get(found.kind, 0) + 1
        if len(self.kept) < self.most:
            self.kept.append(found)

    @property
    def are_same(self) -> bool:
        return not any(kind.is_difference for kind in self.ranges)

    def of(self, name: TopicPartition) -> list[Finding]:
        return [one for one in self.kept if (one.topic, one.partition) == name]
