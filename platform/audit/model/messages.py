"""What tiers say on the audit topic, as values. `codec.py` has their JSON; `tier_reports.py` adds them up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

QUARANTINED = "quarantined"
SEND_FAILED = "send_failed"
LOSS_NAMES = (QUARANTINED, "dropped_buffer_full", SEND_FAILED, "refused_by_schema", "sampled", "expired")
"""The names a producer may give to what it took in and did not get acknowledged."""

MAX_WINDOWS = 500
"""The most windows that one message carries, so that a message stays below every broker's size limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerWindow:
    """One producer's whole count for one window so far; a later report replaces an earlier one."""

    topic: str
    window_start_ms: int
    counts: Mapping[int, int]
    """Partition → acknowledged records."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Name of the loss → records that this producer took in and that are not in `counts`."""


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
    restates_from: int | None = None
    """From this sequence on the run has said again all that it remembers: earlier lost reports no longer matter."""
    windows: tuple[ProducerWindow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeWindow:
    """What a tier found of one window between two offsets."""

    count: int
    quarantined: int = 0
    redelivered: int = 0
    """Records the tier itself met a second time; they are not in `count`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeReport:
    """One message of a tier that reads a log: all of [from_offset, to_offset) of one partition.

    An empty range announces the tier.
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
    redelivered: int = 0
    """Records met a second time whose window the tier does not know."""
    part: int = 0
    parts: int = 1
    """A range with more than `MAX_WINDOWS` windows comes in `parts` messages and counts once all have come."""


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


Report = ProducerReport | RangeReport | Retirement
