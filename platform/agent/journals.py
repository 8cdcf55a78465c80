"""The journals below a folder as sources: what `sdk.journal` reads, in the agent's words."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..audit.model.messages import DAMAGED_IN_JOURNAL
from ..audit.model.windows import window_start_ms
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from ..sdk.journal import START, Journal, JournalChunk, Kind, journal_folders, remove_abandoned_below
from ..sdk.journal import Position as Place
from ..sdk.journal.doorbell import DoorbellListener
from ..sdk.journal.enrolment import enrol, mark_announced
from ..sdk.journal.errors import JournalError
from ..sdk.journal.files.plain_records import JournalRecord, PlainRun, plain_records
from ..wire.quarantine_record import NotAQuarantineRecord, QuarantineRecord
from .plan.events import NativeEvents, new_events
from .source import AuditRun, Chunk, Lag, Position, Scan

log = get_logger(__name__)

CLEAR_EVERY_MS = 60_000
"""How often folders are cleared of journals that were never finished."""
_WHOLE = 1 << 62
"""No bound but the range's end."""


class JournalSource:
    """One journal; it holds the journal's reader lock."""

    def __init__(self, name: str, journal: Journal) -> None:
        self.name = name
        self.journal = journal
        head = journal.head
        self.topic = head.topic
        self.schema = head.schema
        self.run = AuditRun(
            instance=head.instance,
            epoch=head.epoch,
            lateness_ms=head.lateness_ms,
            begins_ms=head.epoch,
            only_between_ms=head.only_between_ms,
            ends_with_source=True,
        )
        self.start = _position(START)

    def read(self, position: Position, most_bytes: int) -> Chunk | None:
        place = _place(position)
        records = _Records()
        chunk = self.journal.read(place, most_bytes, into=records)
        return None if chunk.end == place else records.chunk(chunk)

    def read_again(self, start: Position, end: Position) -> Chunk:
        records = _Records()
        return records.chunk(self.journal.read(_place(start), _WHOLE, until=_place(end), into=records))

    def hold(self, start: Position, end: Position) -> None:
        first, last = _place(start), _place(end)
        self.journal.hold(first, last)
        # After a power cut the agent must find again what it had planned.
        for segment in range(first.segment, last.segment):
            self.journal.sync(Place(segment, self.journal.head.segment_bytes, 0))
        self.journal.sync(last)

    def losses(self) -> Mapping[tuple[int, str], int]:
        return self.journal.losses().counts

    def is_ended(self, position: Position) -> bool:
        return self.journal.is_ended(_place(position))

    def lacks_tail(self, position: Position) -> bool:
        return self.journal.lacks_tail(_place(position)) or self.journal.losses().unassigned > 0

    def lag(self, position: Position) -> Lag:
        place = _place(position)
        records = self.journal.read(place, 1).records
        return Lag(self.journal.lag_bytes(place), records[0].timestamp_ms if records else None)

    def announced(self) -> None:
        mark_announced(self.journal.folder)

    def release(self, position: Position) -> None:
        self.journal.release(_place(position))

    def remove(self) -> None:
        self.journal.remove()

    def close(self) -> None:
        self.journal.close()


class JournalGroup:
    """Every journal below `root`. Each scan checks the journals whose writer may be alive."""

    run = None

    def __init__(
        self,
        root: Path,
        topics: Sequence[str],
        *,
        agent: str,
        clock: Clock,
        name: str = "journals",
        more_events: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """`more_events`: what else happened to its sources, by name."""
        self.name = name
        self._more_events = more_events
        self.topics = tuple(topics)
        self._clock = clock
        self._clear_at_ms = 0
        self._root = root
        self._agent = agent
        self._open: dict[Path, JournalSource] = {}
        self._events: Counter[str] = Counter()
        self._listener: DoorbellListener | None = None

    @property
    def doorbell(self) -> int | None:
        return None if self._listener is None else self._listener.fileno()

    def rung(self) -> Sequence[JournalSource]:
        if self._listener is None:
            try:
                self._listener = DoorbellListener(self._root)
            except OSError as error:
                if "journals_without_doorbell" not in self._events:
                    self._events["journals_without_doorbell"] = 1
                    log.warning("journals_without_doorbell", root=str(self._root), reason=str(error), then="looks at each scan")
                return ()
        return list(self._open.values()) if self._listener.arm() else ()

    @property
    def events(self) -> Mapping[str, int]:
        return {**self._more_events(), **self._events}

    def scan(self, known: Mapping[str, Position]) -> Scan:
        self._clear()
        folders = journal_folders(self._root)
        unopened: dict[str, str] = {}
        for folder in folders:
            if folder in self._open:
                continue
            try:
                journal = Journal(folder)
                journal.lock()
            except JournalError as error:
                if folder.exists():
                    unopened[str(folder)] = str(error)
                continue
            self._open[folder] = JournalSource(f"{self.name}/{folder.relative_to(self._root)}/{journal.head.journal_id}", journal)
        for gone in self._open.keys() - set(folders):
            del self._open[gone]
        return Scan(changed=list(self._open.values()), unopened=unopened)

    def _clear(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._clear_at_ms:
            self._clear_at_ms = now_ms + CLEAR_EVERY_MS
            if count := remove_abandoned_below(self._root):
                self._events["unfinished_journals_removed"] += count
                log.warning("unfinished_journals_removed", root=str(self._root), count=count)

    def enrolled(self, topics: Sequence[str]) -> None:
        enrol(self._root, self._agent, topics)

    def close(self) -> None:
        for one in self._open.values():
            one.close()
        self._open.clear()
        if self._listener is not None:
            self._listener.close()
            self._listener = None


class _Records:
    """A sink of a journal's reader: events, and those that their logger has refused."""

    def __init__(self) -> None:
        self._events = new_events()
        self._refused: list[QuarantineRecord] = []
        self._losses: dict[tuple[int, str], int] = {}

    def take_plain(self, memory: bytes, at: int, salt: int, most_bytes: int, until: int) -> PlainRun:
        if isinstance(self._events, NativeEvents):
            count, end, largest, last_ms, refused = self._events.native.take_journal(memory, at, salt, most_bytes, until)
            for timestamp_ms, _, body in refused:
                self._refuse(timestamp_ms, body)
            return PlainRun(count, end, largest + 1 if count else 0, last_ms)
        found, run = plain_records(memory, at, salt, most_bytes, until)
        for one in found:
            self.append(one)
        return run

    def append(self, record: JournalRecord) -> None:
        kind, timestamp_ms, key, body = record
        if kind == Kind.EVENT:
            self._events.append(timestamp_ms, key, body)
        else:
            self._refuse(timestamp_ms, body)

    def chunk(self, read: JournalChunk) -> Chunk:
        """Return what was taken, as a chunk; `read`: what else the reader says."""
        for gap in read.unreadable:
            _count(self._losses, gap.timestamp_ms, gap.records)
        return Chunk(end=_position(read.end), records=self._events, quarantined=self._refused, losses=self._losses)

    def _refuse(self, timestamp_ms: int, body: bytes) -> None:
        try:
            self._refused.append(QuarantineRecord.from_json(body))
        except NotAQuarantineRecord:
            _count(self._losses, timestamp_ms, 1)


def _count(losses: dict[tuple[int, str], int], timestamp_ms: int, count: int) -> None:
    if count > 0:
        name = (window_start_ms(timestamp_ms), DAMAGED_IN_JOURNAL)
        losses[name] = losses.get(name, 0) + count


def _position(place: Place) -> Position:
    return Position(json.dumps(place))


def _place(position: Position) -> Place:
    return Place(*json.loads(position))
