"""What the agent ships from: sources of records (a journal, a file), and the groups that find them. Protocols and value types.

The agent stores, per source, up to which position every record is settled. It remembers no record: after a crash it reads the
same ranges again, and a source answers with the same records. A group may be scanned, and a source read, from one thread only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NewType, Protocol

from ..wire.quarantine_record import QuarantineRecord

Position = NewType("Position", str)
"""A place in a source, in the source's own words (JSON, say). The agent compares positions for equality only."""


class SourceRecord(NamedTuple):
    """One event."""

    timestamp_ms: int
    key: bytes | None
    body: bytes
    """The Avro body in the source's schema, without the envelope of the schema id."""


class SourceRecords(Protocol):
    """Events in order: a sequence of them, or what `plan.events` holds without making an object of each."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[SourceRecord]: ...

    def __getitem__(self, at: int, /) -> SourceRecord: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What is in [the position asked for, `end`) of a source. The same range holds the same content whenever it is read."""

    end: Position
    records: SourceRecords = ()
    quarantined: Sequence[QuarantineRecord] = ()
    """What is there and can be no event. Their topic is the source's."""
    losses: Mapping[tuple[int, str], int] = field(default_factory=dict)
    """(window start in ms, name of `LOSS_NAMES`) → what was lost in this range, damage say. Added up over chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRun:
    """The producer as which the audit knows a source's records. Several sources may share one: the files of one section, say."""

    instance: str
    """`host/application/…`, unique."""
    epoch: int | None = None
    """With the instance it names the run (ms since the epoch); None: when the agent first meets it."""
    lateness_ms: int | None = 60_000
    """Events are at most so late: a window is sealed so long after its end, if all is read. None: at the end (a replay)."""
    begins_ms: int | None = None
    """When its first event may have been handed over, less the lateness: windows that end before do not wait for it."""
    only_between_ms: tuple[int, int] | None = None
    """The run holds no event before the first, at or after the second instant."""
    ends_with_source: bool = False
    """Closed when its source has ended (a journal); else it continues (the files of a section)."""


class Lag(NamedTuple):
    """How far the reading of a source is behind."""

    bytes: int
    oldest_ms: int | None
    """The time (ms since the epoch) of the first record that is not read, as far as the source knows; None: nothing is left."""


class Source(Protocol):
    """A sequence of records that is read from a position on. Raises HeadraceError where it cannot be read: tried again later."""

    @property
    def name(self) -> str:
        """Unique in its agent, and the same for the same content after a restart, a rename included."""

    @property
    def topic(self) -> str: ...

    @property
    def schema(self) -> str:
        """The writer's Avro schema, JSON: registered as `<topic>-value`."""

    @property
    def run(self) -> AuditRun: ...

    @property
    def start(self) -> Position:
        """Where a source begins that the agent has not met before."""

    def read(self, position: Position, most_bytes: int) -> Chunk | None:
        """Return what follows, at most about `most_bytes` of it and at least one record; None: nothing more is there now."""

    def read_again(self, start: Position, end: Position) -> Chunk:
        """Return the range of an earlier chunk: its first records, as far as they are still there, and never other ones."""

    def hold(self, start: Position, end: Position) -> None:
        """Keep [start, end) readable, until the next call: the agent is about to plan the last of it. Not before its disk has it.

        Raises HeadraceError where a part of it is gone already: it is read again.
        """

    def losses(self) -> Mapping[tuple[int, str], int]:
        """Return totals of what the application itself dropped so far: (window start, name) → count. They never shrink."""

    def is_ended(self, position: Position) -> bool:
        """Return whether nothing can follow `position`, ever, and the source will not be found again once it is removed."""

    def lacks_tail(self, position: Position) -> bool:
        """Return whether records may be missing behind the end (a power cut took them, say): its run is never sealed then."""

    def lag(self, position: Position) -> Lag: ...

    def announced(self) -> None:
        """Note that the source's run is announced to the audit."""

    def release(self, position: Position) -> None:
        """Take note that everything before `position` is settled and will not be read again."""

    def remove(self) -> None:
        """Delete the source: it has ended, everything is settled and reported to the audit. A second call does nothing."""

    def close(self) -> None:
        """Let go of files and locks; the agent stops, or the source was removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a group has found."""

    changed: Sequence[Source] = ()
    """Sources that are new, may have something to read, or have ended, since the scan before. The first scan: all.

    A scan begins when it is called: what stood in a source before, and is not read yet, is in a source that is named here or was
    named by an earlier scan and has not answered None since.
    """
    unopened: Mapping[str, str] = field(default_factory=dict)
    """What could not be opened or distinguished → why. While there is any, the agent lets no window of these topics be sealed."""


class SourceGroup(Protocol):
    """Finds sources: the journals below a folder, the files of one `[[tail]]` section. The same source is the same object."""

    @property
    def name(self) -> str:
        """Unique in its agent; begins the names of its sources."""

    @property
    def topics(self) -> Sequence[str]:
        """The topics that are known before any source is found: enrolled from the beginning."""

    @property
    def run(self) -> AuditRun | None:
        """The run that its sources share, announced before any is found; None: each source has its own."""

    @property
    def events(self) -> Mapping[str, int]:
        """Return what happened to its sources since the agent's start, and how often, by name."""

    def scan(self, known: Mapping[str, Position]) -> Scan:
        """Look for sources. `known`: the agent's sources (name → position up to which they are planned: what was read tells a
        source from others).
        """

    @property
    def doorbell(self) -> int | None:
        """The descriptor that is readable when a source has something new; None: only a scan finds that out."""

    def rung(self) -> Sequence[Source]:
        """Return the sources that may have something new, if the doorbell was rung since the last call, and arm it again.

        What is written after this call rings: call it before reading.
        """

    def enrolled(self, topics: Sequence[str]) -> None:
        """Take note that the audit waits for this agent before it closes a window of these topics."""

    def close(self) -> None: ...
