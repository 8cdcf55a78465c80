"""What tiers say on the audit topic, as values: which records, not how many. `codec.py` has their JSON; `tier_reports.py` adds
them up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

QUARANTINED = "quarantined"
SEND_FAILED = "send_failed"
REFUSED = "refused"
DROPPED_UNPROMISED = "dropped_unpromised"
"""A strict logger takes no event of a window that the audit topic has not acknowledged as held."""
SAMPLED = "sampled"
"""The application chose not to log them, and said so."""
EXPIRED = "expired"
SKIPPED_BY_SEEK = "passed_over"
"""A forward seek of the reader skipped them. Reports keep the older word, which running audit services know."""
DROPPED_JOURNAL_FULL = "dropped_journal_full"
DAMAGED_IN_JOURNAL = "damaged_in_journal"
GONE_FROM_SOURCE = "gone_from_source"
"""An agent had read them, and before they were stored their source lost them: a file was cut, a journal was deleted."""
LOSS_NAMES = (
    QUARANTINED,
    "dropped_buffer_full",
    "dropped_too_large",
    DROPPED_UNPROMISED,
    SEND_FAILED,
    "refused_by_schema",
    REFUSED,
    SAMPLED,
    EXPIRED,
    DROPPED_JOURNAL_FULL,
    DAMAGED_IN_JOURNAL,
    GONE_FROM_SOURCE,
)
"""The names of records that were handed over and are not stored. Only `quarantined` ones have an address."""

MAX_WINDOWS = 500
"""The most windows that one message carries, so that a message stays below every broker's size limit."""
MAX_STRETCHES = 10_000
"""The most stretches that one message carries, for the same reason."""


MAX_HOLDS = 32
"""The most ranges of event time in `holds`; a producer with more joins neighbours."""


class Hold(NamedTuple):
    """Event times of which a run may have records that no report of its tells of."""

    from_ms: int
    to_ms: int
    under_way: int = 0
    """Records of these times that were under way when this was said."""


class Stretch(NamedTuple):
    """Records one after another: one batch, or a part of one."""

    first: int
    """The first record's offset; its sequence number where a producer speaks."""
    count: int  # type: ignore[assignment]
    crc: int | None = None
    """The CRC of the batch that holds them (CRC-32C, as in the header); None where the tier holds no batches."""

    @property
    def end(self) -> int:
        """The number behind the last record."""
        return self.first + self.count


class Renumbered(NamedTuple):
    """A batch that was sent again under other numbers: it may be in the log once under either."""

    sent: Stretch
    producer_id: int
    producer_epoch: int
    first_sequence: int
    """Its next numbers. What became of them is said under them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRanges:
    """What one producer id sent to one partition of one window, by sequence numbers, each batch with its end."""

    partition: int
    producer_id: int
    producer_epoch: int
    acknowledged: tuple[Stretch, ...] = ()
    uncertain: tuple[Stretch, ...] = ()
    """Given up; perhaps stored."""
    renumbered: tuple[Renumbered, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerWindow:
    """What one run has to add about one window: ranges are united with earlier ones, losses replace earlier ones."""

    topic: str
    window_start_ms: int
    sent: tuple[SentRanges, ...] = ()
    """Batches whose end was not reported yet. Said twice, they count once."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Name of the loss → records of this window so far that this run took in and never sent. Absolute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerReport:
    """One message of one run (instance, epoch) of a producer.

    Without windows it is a beat; the first one is the announcement.
    """

    instance: str
    epoch: int
    """Milliseconds since the epoch at which this run began; a later run of the same instance has a higher one."""
    sequence: int
    """0, 1, 2, … within the run: a number that never arrives is a report that was lost."""
    at_ms: int
    state: Literal["open", "closed"]
    """`closed` seals every window."""
    producer_ids: tuple[int, ...]
    topics: tuple[str, ...]
    moved_past_ms: int | None = None
    """Every window that ends at or before this is sealed."""
    only_between_ms: tuple[int, int] | None = None
    """The run logs no event before the first or at or after the second instant: windows outside do not wait for it (a replay)."""
    holds: tuple[Hold, ...] | None = None
    """Where the run may have records that no report up to this one tells of, in order; None: it does not say (an agent, an SDK of
    before).
    """
    windows: tuple[ProducerWindow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeWindow:
    """Which records of one window a tier found between two offsets."""

    held: tuple[Stretch, ...] = ()
    """A record that the tier holds twice stands here twice."""
    quarantined: tuple[Stretch, ...] = ()
    altered: tuple[Stretch, ...] = ()
    """Records, also in `held`, whose content the tier itself found to be another than what it read."""
    redelivered: int = 0
    """Records the tier itself met a second time and did not keep."""


class Skipped(NamedTuple):
    """Offsets that the tier could not read, or was told not to, and why."""

    from_offset: int
    to_offset: int
    reason: str
    """`expired`, `corrupt`, `deleted` or `passed_over`."""


CORRUPT = "corrupt"
SKIP_REASONS = (EXPIRED, CORRUPT, "deleted", SKIPPED_BY_SEEK)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeReport:
    """One message of a tier that reads a log: all of [from_offset, to_offset) of one partition.

    It replaces whatever the tier said of these offsets before. An empty range announces the tier.
    """

    tier: str
    instance: str
    at_ms: int
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    windows: Mapping[int, RangeWindow] = field(default_factory=dict)
    """Window start in milliseconds → what was found."""
    skipped: tuple[Skipped, ...] = ()
    note: str = ""
    """Why the tier makes no progress at `to_offset` though it could continue: an operator has paused it. The next report takes
    it back.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """A person's word that nothing more will come of a run that never sealed, or whose reports were lost.

    It closes no book by itself: what the run kept to itself stays uncounted, and its windows say so.
    """

    instance: str
    epoch: int
    at_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDifference:
    """A person's word that a window's difference at one tier is known (`lost`) or was wanted (`erased`).

    It holds while the difference is just this one: with other numbers, or of other records, the window is INCOMPLETE, DOUBLED or
    ALTERED again.
    """

    topic: str
    window_start_ms: int
    tier: str
    kind: Literal["lost", "erased"]
    missing: int
    doubled: int
    altered: int
    at_ms: int
    by: str
    reason: str
    digest: str = ""
    """Of the records (`digests.digest_of_tier`); empty in words of before 2026-11-24, which hold for the numbers alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedHour:
    """What a publish has read back of one hour of the branch `main`; it replaces what was reported for the hour before."""

    topic: str
    instance: str
    at_ms: int
    revision: int
    verdict: str
    """That of the revision, with COMPACTED as the one before it."""
    row_count: int
    missing: int
    """Rows that the audit had counted in the warehouse and readers do not get."""
    doubled: int
    """Rows that they get once too often."""
    reason: str
    windows: Mapping[int, int]
    """Window start in milliseconds → rows that the audit had counted in the warehouse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierChange:
    """An operator's word that a group takes part in the verdicts on a topic's windows (`add`), or has a row beside them
    (`remove`). See `named_tiers`.
    """

    topic: str
    tier: str
    change: Literal["add", "remove"]
    from_ms: int
    """It holds for windows that begin then or later."""
    at_ms: int
    by: str
    reason: str


Report = ProducerReport | RangeReport | Retirement | KnownDifference | PublishedHour | TierChange
