"""What a chunk of a source becomes on the wire: events framed with their schema's id, and quarantine records. Pure.

The same chunk under the same decisions (`ChunkPlan`) gives the same entries: after a crash the planned batches are rebuilt so.
"""

from dataclasses import dataclass
from typing import Literal

from ...audit.model.windows import window_start_ms
from ...wire.quarantine_record import FileOrigin, QuarantineRecord, head_of
from ...wire.schema_id import frame
from ..source import Chunk, Position, SourceRecord
from .events import Events, ListedEvents, events_of

Kind = Literal["event", "quarantine"]
EVENT: Kind = "event"
QUARANTINE: Kind = "quarantine"


@dataclass(frozen=True, slots=True)
class Entries:
    """The records of one kind."""

    events: Events
    prefix: bytes = b""
    """What is before each body in its record's value: the envelope of the schema's id."""

    def __len__(self) -> int:
        return len(self.events)


NOTHING = Entries(ListedEvents())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPlan:
    """What was decided about a chunk when it was read first."""

    source: str
    start: Position
    end: Position
    topic: str
    schema_id: int
    """-1: the registry has refused the schema, and every record goes to quarantine."""
    refusal: str = ""
    """Why."""
    planned_ms: int


def entries_of(chunk: Chunk, plan: ChunkPlan) -> dict[Kind, Entries]:
    """Return the entries of both kinds; those of `quarantine` are dated by the start of their window."""
    aside = list(chunk.quarantined)
    events = NOTHING
    if plan.schema_id >= 0:
        events = Entries(events_of(chunk.records), frame(plan.schema_id, b""))
    else:
        aside += [
            QuarantineRecord(
                topic=plan.topic,
                stage="agent",
                code="schema_refused",
                reason=plan.refusal,
                origin=FileOrigin(file=f"{plan.source} {plan.start}", line=number),
                window_start_ms=window_start_ms(record.timestamp_ms),
                window_from="record",
                at_ms=plan.planned_ms,
                payload=head_of(record.body),
            )
            for number, record in enumerate(chunk.records, 1)
        ]
    refused = [SourceRecord(window_start_ms(one.window_start_ms), one.key(), one.to_json()) for one in aside]
    return {EVENT: events, QUARANTINE: Entries(events_of(refused))}
