"""What the simulation needs of a replica's log, and the simplest log that gives it: a list in memory.

The list loses what was not flushed when the power is cut, and nothing when the process is killed.
"""

import random
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from headrace.broker.replication.facts import NO_CRC, LogFacts
from headrace.broker.replication.state import Epochs, cut_epochs, with_epoch


class Record(NamedTuple):
    """A batch of one record, as it is in a log."""

    position: int
    next_offset: int
    epoch_in_bytes: int
    value: int
    crc: int


class FlushRun(NamedTuple):
    """A flush that has begun."""

    incarnation: int
    end_offset: int
    work: object = None


class SimulatedLog(Protocol):
    """A replica's log. Everything but appends is durable when the call returns."""

    incarnation: int
    has_lost_trust: bool
    """Whether the last power cut took something from the middle of the log, so that the folder begins a new life."""

    def facts(self) -> LogFacts: ...
    def append(self, value: int, leader_epoch: int) -> Record: ...
    def append_copied(self, record: Record, leader_epoch: int) -> None: ...
    def records(self, from_offset: int = 0) -> list[Record]: ...
    def ending_at(self, offset: int) -> Record | None: ...
    def end_of(self, value: int) -> int | None: ...
    def gaps(self) -> tuple[tuple[int, int], ...]: ...
    def crc_of(self, value: int) -> int: ...
    def begin_epoch(self, leader_epoch: int, start_offset: int) -> None: ...
    def cut(self, to_offset: int) -> None: ...
    def begin_empty(self, at_offset: int) -> None: ...
    def jump(self, to_offset: int) -> None: ...
    def advance_start(self, to_offset: int) -> None: ...
    def begin_flush(self) -> FlushRun: ...
    def end_flush(self, run: FlushRun) -> None: ...
    def physically_flushed(self) -> int: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...
    def cut_power(self, chance: random.Random) -> None: ...
    def damage(self, which: int) -> bool: ...
    def flip_epoch_bits(self, which: int) -> bool: ...


@dataclass(slots=True)
class ListLog:
    """See the module."""

    start: int = 0
    end: int = 0
    flushed: int = 0
    rows: list[Record] = field(default_factory=list)
    epochs: Epochs = ()
    damaged: set[int] = field(default_factory=set)
    incarnation: int = 0
    has_lost_trust: bool = False

    def facts(self) -> LogFacts:
        last = self.rows[-1] if self.rows and self.rows[-1].next_offset == self.end else None
        return LogFacts(
            log_start_offset=self.start,
            end_offset=self.end,
            flushed_offset=self.flushed,
            epochs=self.listed_epochs(),
            last_crc=NO_CRC if last is None else last.crc,
            is_damaged=bool(self.damaged),
            incarnation=self.incarnation,
        )

    def listed_epochs(self) -> Epochs:
        """Return the list beside the log."""
        return self.epochs

    def append(self, value: int, leader_epoch: int) -> Record:
        record = Record(self.end, self.end + 10 + value % 3, leader_epoch, value, self.crc_of(value))
        self.append_copied(record, leader_epoch)
        return record

    def append_copied(self, record: Record, leader_epoch: int) -> None:
        self.rows.append(record._replace(epoch_in_bytes=leader_epoch))
        self.end = record.next_offset

    def records(self, from_offset: int = 0) -> list[Record]:
        found = []
        at = len(self.rows)
        while at and self.rows[at - 1].next_offset > max(from_offset, self.start):
            at -= 1
        for record in self.rows[at:]:
            if record.position in self.damaged:
                break
            found.append(record)
        return found

    def ending_at(self, offset: int) -> Record | None:
        return next((each for each in reversed(self.rows) if each.next_offset == offset), None)

    def end_of(self, value: int) -> int | None:
        return next((each.next_offset for each in self.rows if each.value == value), None)

    def gaps(self) -> tuple[tuple[int, int], ...]:
        found = []
        end = min(self.start, self.rows[0].position) if self.rows else self.start
        for record in self.rows:
            if record.position > end:
                found.append((end, record.position))
            end = record.next_offset
        if self.end > end:
            found.append((end, self.end))
        return tuple(found)

    def crc_of(self, value: int) -> int:
        return zlib.crc32(b"%d" % value)

    def begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        self.epochs = with_epoch(self.epochs, leader_epoch, start_offset)

    def cut(self, to_offset: int) -> None:
        self.rows = [each for each in self.rows if each.next_offset <= to_offset]
        self.damaged = {each for each in self.damaged if each < to_offset}
        self.end, self.flushed = to_offset, min(self.flushed, to_offset)
        self.epochs = cut_epochs(self.epochs, to_offset)
        self.incarnation += 1

    def begin_empty(self, at_offset: int) -> None:
        self.rows, self.epochs, self.damaged = [], (), set()
        self.start = self.end = self.flushed = at_offset
        self.incarnation += 1

    def jump(self, to_offset: int) -> None:
        if not self.rows:
            self.start = to_offset if self.start == self.end else self.start
        self.end = to_offset

    def advance_start(self, to_offset: int) -> None:
        if to_offset > self.start:
            self.start = min(to_offset, self.end)
            self.rows = [each for each in self.rows if each.next_offset > self.start]
            self.damaged = {each.position for each in self.rows if each.position in self.damaged}
            self.flushed = max(self.flushed, self.start)

    def begin_flush(self) -> FlushRun:
        return FlushRun(self.incarnation, self.end)

    def end_flush(self, run: FlushRun) -> None:
        if run.incarnation == self.incarnation:
            self.flushed = max(self.flushed, run.end_offset)

    def physically_flushed(self) -> int:
        return self.flushed

    def kill(self) -> None:
        self.incarnation += 1

    def stop(self) -> None:
        self.flushed = self.end
        self.incarnation += 1

    def cut_power(self, chance: random.Random) -> None:
        on_disk = [each for each in self.rows if each.next_offset <= self.flushed]
        kept = chance.randint(0, len(self.rows) - len(on_disk))
        self.rows = self.rows[: len(on_disk) + kept]
        self.end = max([self.flushed, *(each.next_offset for each in self.rows)])
        self.flushed = self.end
        self.damaged = {each for each in self.damaged if each < self.end}
        self.epochs = cut_epochs(self.epochs, self.end)
        self.incarnation += 1

    def damage(self, which: int) -> bool:
        if not self.rows:
            return False
        self.damaged.add(self.rows[which % len(self.rows)].position)
        return True

    def flip_epoch_bits(self, which: int) -> bool:
        if not self.rows:
            return False
        at = which % len(self.rows)
        self.rows[at] = self.rows[at]._replace(epoch_in_bytes=self.rows[at].epoch_in_bytes ^ 4)
        return True
