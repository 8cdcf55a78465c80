"""What the state holds, as values. Positions and names are the sources' own."""

from dataclasses import dataclass, field

from ...client.producer.delivery import BatchNumbers
from ..plan.entries import ChunkPlan, Kind
from ..source import AuditRun, Position

QUARANTINE_OWNER = 0
"""The owner (instead of a run's id) of the batches of quarantine topics: they have a producer of their own."""
ENROLMENT = 1
"""The run that stands for the sources that are not found yet."""


@dataclass(slots=True, kw_only=True)
class RunRow:
    """A run of a producer as the audit knows it."""

    id: int
    facts: AuditRun
    epoch: int
    next_sequence: int = 0
    moved_past_ms: int | None = None
    """As last put into a report."""
    topics: tuple[str, ...] = ()
    producer_ids: tuple[tuple[int, int], ...] = ()
    """Every (producer id, epoch) so far; the last is the current one."""
    announced_ids: int = -1
    """How many of them the audit topic has acknowledged an announcement of; -1: none was acknowledged."""
    is_closing: bool = False
    """Its last report is written."""


@dataclass(slots=True, kw_only=True)
class SourceRow:
    """A source, and how far it is settled and planned."""

    id: int
    name: str
    run_id: int
    settled: Position
    """Every record before it is acknowledged or counted."""
    planned: Position
    """Every record before it is in a planned batch, or is settled."""


@dataclass(slots=True, kw_only=True)
class BatchRow:
    """A batch that is planned and not settled."""

    id: int
    chunk_id: int
    owner: int
    topic: str
    partition: int
    kind: Kind
    window_start_ms: int
    numbers: BatchNumbers
    record_count: int
    picks: bytes
    """The places of its records in the chunk, packed (`plan.picks`)."""
    search_from: int
    """The log of its partition ended at or behind this offset when it was planned: it is at none below."""
    planned_ms: int
    earlier: tuple[BatchNumbers, ...] = ()
    """Numbers under which it may be in the log besides."""


@dataclass(slots=True, kw_only=True)
class ChunkRow:
    """A range of a source with batches that are not settled."""

    id: int
    source_id: int
    run_id: int
    """Its source's."""
    plan: ChunkPlan
    batches: list[BatchRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRow:
    """What became of a batch, not reported yet."""

    run_id: int
    topic: str
    window_start_ms: int
    partition: int
    numbers: tuple[BatchNumbers, ...]
    record_count: int
    is_acknowledged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """A report that the audit topic has not acknowledged: these bytes are sent until it has."""

    id: int
    run_id: int
    body: bytes
    announces: int
    """How many producer ids of its run it names."""
    topics: int
    """And how many topics."""
