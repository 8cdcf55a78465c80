"""Sources in memory, which outlive the agents that read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.agent.errors import SourceUnreadable
from headrace.agent.source import AuditRun, Chunk, Lag, Position, Scan, Source, SourceRecord
from headrace.wire.quarantine_record import FileOrigin, QuarantineRecord

START = Position("0")
SCHEMA = '{"type": "record", "name": "Click", "fields": [{"name": "number", "type": "long"}]}'


@dataclass
class MemorySource:
    """A journal in memory: positions are counts of records. `most_records` are read at once."""

    name: str
    topic: str
    run: AuditRun
    schema: str = SCHEMA
    items: list[SourceRecord | str] = field(default_factory=list)
    """Events, and lines that are none."""
    dropped: dict[tuple[int, str], int] = field(default_factory=dict)
    is_over: bool = False
    is_removed: bool = False
    released: int = 0
    lost_from: int | None = None
    """What stood from here on is gone: the file was cut."""
    refuses: bool = False
    is_cut_by_power: bool = False
    is_announced: bool = False
    start: Position = START
    most_records: int = 10

    def log(self, *numbers: int, at_ms: int, key: bytes | None = None) -> None:
        self.items += [SourceRecord(at_ms, key, b"%d" % number) for number in numbers]

    def log_nonsense(self, *lines: str) -> None:
        self.items += lines

    def read(self, position: Position, most_bytes: int) -> Chunk | None:
        if self.refuses:
            raise SourceUnreadable(f"{self.name} cannot be read")
        at = int(position)
        end = min(len(self.items), at + self.most_records)
        return None if end == at else self._chunk(at, end)

    def read_again(self, start: Position, end: Position) -> Chunk:
        if self.refuses:
            raise SourceUnreadable(f"{self.name} cannot be read")
        assert int(start) >= self.released, "what is released is never read again"
        return self._chunk(int(start), int(end))

    def losses(self) -> Mapping[tuple[int, str], int]:
        return self.dropped

    def hold(self, start: Position, end: Position) -> None:
        assert int(start) <= int(end)

    def lacks_tail(self, position: Position) -> bool:
        return self.is_cut_by_power

    def announced(self) -> None:
        self.is_announced = True

    def is_ended(self, position: Position) -> bool:
        return self.is_over and int(position) == len(self.items)

    def lag(self, position: Position) -> Lag:
        left = [one for one in self.items[int(position) :] if isinstance(one, SourceRecord)]
        return Lag(len(left), left[0].timestamp_ms if left else None)

    def release(self, position: Position) -> None:
        assert int(position) >= self.released
        self.released = int(position)

    def remove(self) -> None:
        assert self.is_over
        assert self.released == len(self.items)
        self.is_removed = True

    def close(self) -> None:
        pass

    def _chunk(self, start: int, end: int) -> Chunk:
        there = self.items[start : end if self.lost_from is None else max(start, min(end, self.lost_from))]
        return Chunk(
            end=Position(str(end)),
            records=[one for one in there if isinstance(one, SourceRecord)],
            quarantined=[self._aside(one, start + at) for at, one in enumerate(there) if isinstance(one, str)],
        )

    def _aside(self, line: str, at: int) -> QuarantineRecord:
        return QuarantineRecord(
            topic=self.topic,
            stage="agent",
            code="unparsable_line",
            reason="it is not an event",
            origin=FileOrigin(file=self.name, line=at + 1),
            window_start_ms=0,
            window_from="clock",
            at_ms=0,
            payload=line.encode(),
        )


@dataclass
class MemoryGroup:
    """Finds the sources that are not removed."""

    sources: list[MemorySource] = field(default_factory=list)
    name: str = "journals"
    topics: Sequence[str] = ()
    run: AuditRun | None = None
    unopened: dict[str, str] = field(default_factory=dict)
    enrolled_topics: Sequence[str] = ()
    events: dict[str, int] = field(default_factory=dict)

    def scan(self, known: Mapping[str, Position]) -> Scan:
        found: list[Source] = [one for one in self.sources if not one.is_removed]
        return Scan(changed=found, unopened=self.unopened)

    doorbell = None

    def rung(self) -> Sequence[Source]:
        return ()

    def enrolled(self, topics: Sequence[str]) -> None:
        self.enrolled_topics = topics

    def close(self) -> None:
        pass

    def journal(self, name: str, topic: str = "clicks", *, begins_ms: int | None = None) -> MemorySource:
        run = AuditRun(instance=f"host/app/{name}", begins_ms=begins_ms, ends_with_source=True)
        source = MemorySource(f"{self.name}/{name}", topic, run)
        self.sources.append(source)
        return source
