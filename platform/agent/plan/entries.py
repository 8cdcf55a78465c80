"""What a chunk of a source becomes on the wire: events framed with their schema's id, and quarantine records. Pure.

The same chunk under the same decisions (`ChunkPlan`) gives the same entries: after a crash the planned batches are rebuilt so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...audit.model.windows import WINDOW_MS, window_start_ms
from ...wire.quarantine_record import FileOrigin, QuarantineRecord, head_of
from ...wire.schema_id import frame
from ..source import Chunk, Position

Kind = Literal["event", "quarantine"]
EVENT: Kind = "event"
QUARANTINE: Kind = "quarantine"


class Entry(NamedTuple):
    """One record of a batch."""

    timestamp_ms: int
    key: bytes | None
    value: bytes


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


def entries_of(chunk: Chunk, plan: ChunkPlan) -> dict[Kind, list[Entry]]:
    """Return the entries of both kinds; those of `quarantine` are dated by the start of their window. Hot: once per record."""
    aside = list(chunk.quarantined)
    events: list[Entry] = []
    if plan.schema_id >= 0:
        envelope = frame(plan.schema_id, b"")
        events = [Entry(timestamp_ms, key, envelope + body) for timestamp_ms, key, body in chunk.records]
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
    return {
        EVENT: events,
        QUARANTINE: [Entry(window_start_ms(one.window_start_ms), one.key(), one.to_json()) for one in aside],
    }


def window_of(entry: Entry) -> int:
    """Return the start of the entry's window."""
    return window_start_ms(entry.timestamp_ms, WINDOW_MS)


def picked(entries: Sequence[Entry], picks: Sequence[int]) -> list[Entry]:
    """Return the entries at these places, as far as they exist."""
    count = len(entries)
    return [entries[at] for at in picks if at < count]
