"""What a verdict is made of and what it is: facts of a topic, facts of one of its windows, the verdict. Plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from .books import Found, ProducerBook
from .messages import KnownDifference, PublishedHour
from .run_index import RunIndex
from .runs import Run, RunKey
from .tier_log import TierLog
from .tiers import TierRule
from .waits import Waits


class Kind(StrEnum):
    """The verdicts. Only COMPLETE is complete."""

    COMPLETE = "COMPLETE"
    """Every record that was handed over is in every tier exactly once, or in quarantine with an address."""
    ACCOUNTED = "ACCOUNTED"
    """Balances, but for records that were lost under a name and have no address."""
    ACCEPTED = "ACCEPTED"
    """Balances, but for what an operator has taken upon himself: a run that never said all, a difference that is known."""
    INCOMPLETE = "INCOMPLETE"
    ALTERED = "ALTERED"
    DOUBLED = "DOUBLED"
    OPEN = "OPEN"
    UNKNOWN = "UNKNOWN"

    @property
    def is_final(self) -> bool:
        """True when time alone will not change it."""
        return self not in (Kind.OPEN, Kind.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """What is true of all windows of a topic."""

    topic: str
    rules: Sequence[TierRule]
    logs: Mapping[str, Mapping[int, TierLog]]
    """Tier → partition → how far it has got."""
    runs: Sequence[Run]
    """The runs that announced the topic and have not closed with all their reports here."""
    ended: Sequence[Run]
    """The runs that did close so, since the live log was last read to its end everywhere."""
    has_producers: bool
    """Whether any run has announced the topic."""
    superseded_at: Mapping[RunKey, int] = field(default_factory=dict)
    """Run → the epoch of a later run of the same instance."""
    heard_all_ms: int | None
    """The latest moment as of which everything on the audit topic was read."""
    listening_since_ms: int
    """Since when the audit has listened without a break: nobody is silent before that."""
    is_made_anew: bool = False
    """The live cluster had another topic of this name before."""
    quarantine_gone_ms: int | None = None
    """When it was noticed that the topic's quarantine was deleted. See `checks.quarantine`."""
    quarantines_seen_ms: int | None = None
    """As of when the audit knows that the topic has no quarantine on live; 0: not yet, or it has one. None: nobody looks."""
    unheard: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Partition → offsets of live where producers began to write whose reports may be lost. See `checks.unheard`."""
    _index: list[RunIndex] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def run_index(self) -> RunIndex:
        """Which runs may keep a window waiting; made once, for all windows."""
        if not self._index:
            self._index.append(RunIndex(self.runs, self.ended))
        return self._index[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFacts:
    """What is known of one window of a topic."""

    window_start_ms: int
    window_end_ms: int
    found: Mapping[str, Mapping[int, Found]]
    """Tier → partition → which records (without the producer tier)."""
    producers: Mapping[RunKey, ProducerBook]
    """Run → what it said of the window; a run that mentioned it has an entry, be it empty."""
    owners: Mapping[int, Run]
    """Producer id → the run that announced it, be it for other topics; ids in the live log that nobody announced are not here."""
    known: Mapping[str, KnownDifference]
    """Tier → an operator's word on a difference there."""
    redelivered: int = 0
    published: PublishedHour | None = None
    """What was read back of its hour on the branch `main`."""
    _writers: list[frozenset[RunKey]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def writers(self) -> frozenset[RunKey]:
        """The runs that said something of the window, or whose records stand in it."""
        if not self._writers:
            self._writers.append(frozenset({*self.producers, *(run.key for run in self.owners.values())}))
        return self._writers[0]

    @property
    def reported_ms(self) -> int:
        """When a producer last said something about the window, 0 without."""
        return max((one.heard_ms for one in self.producers.values()), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records one after another that are missing, doubled or altered."""

    kind: str
    first_offset: int | None
    """None where they stand nowhere in the log."""
    count: int
    producer_id: int | None = None
    producer_epoch: int | None = None
    first_sequence: int | None = None
    instance: str | None = None
    stray: bool | None = None
    """True of a doubled record that the tier before does not hold at all: no duplicate, but a row of no record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where a tier differs from the one before it, in one partition."""

    tier: str
    partition: int
    missing: int
    doubled: int
    altered: int
    records: Sequence[Records]
    """Which records; at most as many entries as were asked for."""
    more: int = 0
    """How many records the entries that are left out name."""
    digest: str = ""
    """Of all the records: two differences with one digest are of the same records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRow:
    """The audit's word on what one sink has of a window, compared with the log that it reads. No other verdict hangs on it."""

    kind: Kind
    count: int | None
    """Records that its destination has; None before its first report."""
    missing: int
    doubled: int
    altered: int
    quarantined: int
    losses: Mapping[str, int]
    silent: Sequence[str]
    reason: str
    differences: Sequence[Difference]
    waits: Waits = field(default_factory=dict)
    """What may change it without news of the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The audit's word on one window."""

    kind: Kind
    tiers: Mapping[str, int | None]
    """Tier → count; None where the tier has not reported the window yet."""
    missing: int
    """Records lost without a name between tiers; exact when the verdict is final, proven so far otherwise."""
    doubled: int
    altered: int
    accounted: Mapping[str, int]
    """Name → records that were lost under it and have no address."""
    quarantined: int
    first_bad_tier: str | None
    unaudited: int
    redelivered: int
    erased: int
    """Of the missing ones, those that an operator has had deleted."""
    losses: Mapping[str, int]
    """Name → records, `quarantined` ones among them."""
    silent: Sequence[str]
    retired: Sequence[str]
    """Producers that never said all of this window, each with who retired it, and why."""
    reason: str
    differences: Sequence[Difference]
    sinks: Mapping[str, SinkRow] = field(default_factory=dict)
    """Tier → the row of a sink."""
    compared_identities: int = 0
    """Records that the comparison went over: the most that any of the compared tiers has."""
    compared_tiers: int = 0
    """Tiers that were compared; those that are not settled yet are not among them."""
    unread_reports: int = 0
    """Records on live of producers whose reports were lost before the audit read them."""
    waits: Waits = field(default_factory=dict)
    """What may change the verdict, or the row of a sink, without news of the topic."""
