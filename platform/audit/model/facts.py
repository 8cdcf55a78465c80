"""What a verdict is made of and what it is: facts of a topic, facts of one of its windows, the verdict. Plain values."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from .ranges import WindowSum
from .runs import Run, RunKey
from .tiers import TierRule


class Kind(StrEnum):
    """The verdicts."""

    COMPLETE = "COMPLETE"
    ACCEPTED = "ACCEPTED"
    """Balances, but for a producer that never said all and that somebody has retired: as complete as it will ever be."""
    INCOMPLETE = "INCOMPLETE"
    OVERCOUNTED = "OVERCOUNTED"
    OPEN = "OPEN"
    UNKNOWN = "UNKNOWN"

    @property
    def is_final(self) -> bool:
        """True when time alone will not change it."""
        return self in (Kind.COMPLETE, Kind.ACCEPTED, Kind.INCOMPLETE, Kind.OVERCOUNTED)


@dataclass(slots=True)
class Cell:
    """What one tier found of one window in one partition."""

    found: WindowSum
    updated_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far one tier has got in one partition."""

    coverage: Sequence[tuple[int, int]]
    """Offsets accounted for, as disjoint half-open ranges in order."""
    begins_at: int
    moved_ms: int
    """When the coverage last grew (or the tier was first heard of there)."""
    caught_up_ms: int | None = None
    """Read-back tiers: the latest moment at which the log was asked for its end and all up to it is read."""

    def covers(self, from_offset: int, to_offset: int) -> bool:
        """Return whether every offset of [from_offset, to_offset) is accounted for."""
        if from_offset >= to_offset:
            return True
        if len(self.coverage) == 1:
            start, end = self.coverage[0]
            return start <= from_offset and to_offset <= end
        at = bisect_right(self.coverage, from_offset, key=lambda one: one[0]) - 1
        return at >= 0 and self.coverage[at][1] >= to_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """What is true of all windows of a topic."""

    topic: str
    rules: Sequence[TierRule]
    progress: Mapping[str, Mapping[int, Progress]]
    runs: Sequence[Run]
    """The runs that announced the topic and have not closed with all their reports here."""
    closed_ms: int | None
    """When the last of the runs that did close so was heard to; None when there is none."""
    superseded_at: Mapping[RunKey, int] = field(default_factory=dict)
    """Run → the epoch of a later run of the same instance."""
    heard_all_ms: int | None
    """The latest moment as of which everything on the audit topic was read."""
    listening_since_ms: int
    """Since when the audit has listened without a break: nobody is silent before that."""
    presumed_dead_ms: int
    """After so long a silence an unsealed run counts as dead.

    It leaves windows unknown that it could still touch, not later ones.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFacts:
    """What is known of one window of a topic."""

    window_start_ms: int
    window_end_ms: int
    cells: Mapping[str, Mapping[int, Cell]]
    """Tier → partition → found (without the producer tier)."""
    acknowledged: Mapping[RunKey, Mapping[int, int]]
    """Run → partition → records; a run that mentioned the window has an entry, be it empty."""
    arrived: Mapping[RunKey, Mapping[int, int]]
    """Run → partition → records with its producer ids in the live log."""
    unaudited: int = 0
    """Records in the live log whose producer id nobody announced."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Name → records that producers took in and lost by name."""
    send_failed: Mapping[str, int] = field(default_factory=dict)
    """Instance → records whose send was given up: the producer does not know whether they arrived."""
    reported_ms: int | None = None
    """When a producer last said something about the window."""
    redelivered: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where two tiers differ in one partition."""

    tier: str
    partition: int
    missing: int
    extra: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The audit's word on one window."""

    kind: Kind
    tiers: Mapping[str, int | None]
    """Tier → count; None where the tier has not reported the window yet."""
    missing: int
    """Records lost without a name between tiers; exact when the verdict is final, proven so far otherwise."""
    extra: int
    first_bad_tier: str | None
    quarantined: int
    losses: Mapping[str, int]
    unaudited: int
    redelivered: int
    silent: Sequence[str]
    retired: Sequence[str]
    """Producers that never said all of this window, each with who retired it, and why."""
    reason: str
    differences: Sequence[Difference]
