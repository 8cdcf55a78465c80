"""Runs of applications: what they hand over, what becomes of it on its way to the live log, and what they report."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.audit.model.messages import Hold, ProducerReport, ProducerWindow, Renumbered, Retirement, SentRanges, Stretch

from .records import ACKNOWLEDGED, REFUSED, TOPIC, UNCERTAIN, WINDOW_MS, Batch, Numbers

if TYPE_CHECKING:
    from .world import World


@dataclass(eq=False)
class Run:
    """One run of one instance."""

    world: "World"
    instance: str
    epoch: int
    producer_id: int
    between: tuple[int, int] | None = None
    topic: str = TOPIC
    producer_epoch: int = 0
    sequence: int = 0
    """Of the next report."""
    next_numbers: dict[int, int] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    losses: dict[int, Counter[str]] = field(default_factory=dict)
    """Window → name → records, as they will have been reported."""
    sealed: dict[int, int] = field(default_factory=dict)
    """Window → sequence number of the first report that seals it."""
    moved_past: int | None = None
    """What reports say of it. It never goes back."""
    is_closed: bool = False
    is_killed: bool = False
    is_retired: bool = False
    vanished: set[int] = field(default_factory=set)
    """Reports that the application believes to be stored, and that nobody will ever read."""
    unsent: ProducerReport | None = None
    """A report that was not acknowledged: it is said again word for word before any other."""
    last_heard: int = -1
    holds: set[int] | None = None
    """Windows that the next report says are held; None: an SDK that does not say."""
    promised: dict[int, int] = field(default_factory=dict)
    """Window of the last acknowledged holds → the report that says so."""
    open: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Record that `log` took with a promise, and of whose end nothing is on the audit topic → its window, and the report that
    promised it.
    """
    heard_holds: set[int] = field(default_factory=set)
    """As of the last report that arrived."""
    _memory: list[tuple[int, list[int]]] = field(default_factory=list)
    """Taken, and not ended: window, records."""
    _ended: list[int] = field(default_factory=list)
    """Records whose end the next report tells."""
    _told_by: dict[int, tuple[list[int], set[int]]] = field(default_factory=dict)
    """Report → records whose end it tells, what it says is held."""
    _pending: list[tuple[int, SentRanges]] = field(default_factory=list)

    @property
    def draw(self) -> random.Random:
        return self.world.random

    def life(self) -> Iterator[None]:
        """Yield after each thing that it does."""
        world = self.world
        if world.happens("early", 0.5):
            for _ in range(self.draw.randint(1, 2)):
                yield from self._batch()
            if world.happens("kill", 0.3):
                self.is_killed = True
                return
        self._report()
        yield
        for _ in range(self.draw.randint(1, 5)):
            if self.is_killed:
                return
            if world.happens("drop", 0.3):
                window = self._window()
                self.losses.setdefault(window, Counter())[self.draw.choice(["dropped_buffer_full", "send_failed"])] += 1
                world.mentioned.add(window)
            yield from self._batch()
            if world.happens("kill", 0.15):
                self.is_killed = True
                return
            if self.draw.random() < 0.5:
                self._report(seals=world.happens("late", 0.5))
                yield
        if self.is_killed:
            return
        if self.draw.random() < 0.3:
            self._report(seals=True)
            yield
        if world.happens("silence", 0.1):
            self.is_killed = True
            return
        while self.unsent is not None:
            self._report(must_arrive=True)
            yield
        self.is_closed = True
        self._report()
        if self.unsent is not None:
            yield
            self._report(must_arrive=True)

    def _take(self, window: int, records: list[int]) -> Iterator[None]:
        """Take events into memory: with a promise once the audit topic has acknowledged that their window is held."""
        assert self.holds is not None
        if window not in self.promised:
            self.holds.add(window)
            self._report()
            yield
        if window in self.promised:
            self.open.update(dict.fromkeys(records, (window, self.promised[window])))
        self._memory.append((window, records))
        yield

    def _let_go(self) -> set[int]:
        """Return what the next report says is held: what is in memory, the current window by a clock that jumps, perhaps more."""
        assert self.holds is not None
        mine = {window for window, _ in self._memory} | self.holds
        if self.between is None:
            mine.add(self.draw.choice(self.world.windows))
        self.holds = set()
        self.promised = {window: at for window, at in self.promised.items() if window in mine}
        return mine

    def _window(self) -> int:
        windows = self.world.windows
        if self.between is not None and not self.world.happens("stray", 0.3):
            windows = [one for one in windows if self.between[0] <= one < self.between[1]] or windows
        return self.draw.choice(windows)

    def _batch(self) -> Iterator[None]:
        world = self.world
        partition, window = self.draw.choice(world.partitions), self._window()
        records = world.new_records(self.draw.randint(1, 3))
        twin = world.twin(self, partition) if world.happens("clone", 0.3) else None
        if twin is not None:
            records = world.new_records(len(twin.records))
            window = twin.window
            numbers = [twin.numbers[-1]._replace(crc=world.new_crc())]
        else:
            numbers = [self._numbers(partition, len(records))]
        batch = Batch(self, partition, window, records, numbers, ACKNOWLEDGED)
        if self.holds is not None and self.is_known:
            yield from self._take(window, records)
            if self.draw.random() < 0.2:
                self.is_killed = True  # with these in memory
                return
            if self.draw.random() < 0.3:
                self._report(seals=True)  # by its clock; what is in memory stays held
        world.mentioned.add(window)
        if twin is None:
            while world.happens("renumber", 0.25) and len(batch.numbers) < 3:
                self._renumber(batch)
                yield
            self._send(batch)
        if batch.end == REFUSED:
            # It is in no log, and the next batch takes its numbers: a loss by name.
            self.next_numbers[partition] = numbers[0].sequence
            self._end(records)
            self.losses.setdefault(window, Counter())[REFUSED] += len(records)
            return
        self.batches.append(batch)
        yield
        if world.happens("unreported", 0.1) and twin is None and len(batch.numbers) == 1:
            batch.is_reported = False
            self._end(records)
            return
        self._end(records)
        last = batch.numbers[-1]
        stretch = (Stretch(last.sequence, len(records), last.crc),)
        ends = {name: stretch if batch.end == name else () for name in (ACKNOWLEDGED, UNCERTAIN)}
        self._pending.append((window, SentRanges(
            partition=partition, producer_id=last.producer_id, producer_epoch=last.epoch, **ends
        )))  # fmt: skip

    def _end(self, records: list[int]) -> None:
        """The next report tells what became of the records."""
        self._memory = [one for one in self._memory if one[1] is not records]
        self._ended += records

    def _numbers(self, partition: int, count: int) -> Numbers:
        first = self.next_numbers.get(partition, 0)
        self.next_numbers[partition] = first + count
        return Numbers(self.producer_id, self.producer_epoch, first, self.world.new_crc())

    def _renumber(self, batch: Batch) -> None:
        """Send the batch again under a new epoch, as a client does that lost its place."""
        old = batch.numbers[-1]
        if self.draw.random() < 0.3 and (not batch.copies or self.world.happens("double", 0.3)):
            batch.copies.append(len(batch.numbers) - 1)
        self.producer_epoch += 1
        self.next_numbers = {}
        new = self._numbers(batch.partition, len(batch.records))
        batch.numbers.append(new)
        again = Renumbered(
            Stretch(old.sequence, len(batch.records), old.crc), new.producer_id, new.epoch, new.sequence
        )  # fmt: skip
        self._pending.append((batch.window, SentRanges(
            partition=batch.partition, producer_id=old.producer_id, producer_epoch=old.epoch, renumbered=(again,)
        )))  # fmt: skip

    def _send(self, batch: Batch) -> None:
        world = self.world
        if world.happens("uncertain", 0.2):
            batch.end = UNCERTAIN
        elif len(batch.numbers) == 1 and world.happens("refused", 0.2):
            batch.end = REFUSED
            return
        last = len(batch.numbers) - 1
        is_stored = batch.end == UNCERTAIN and self.draw.random() < 0.5
        if batch.end == ACKNOWLEDGED:
            is_stored = not world.happens("loss", 0.15)
        if is_stored and (not batch.copies or world.happens("double", 0.3)):
            batch.copies.append(last)
        if batch.copies and world.happens("double", 0.15):
            batch.copies.append(batch.copies[-1])
        for number, index in enumerate(batch.copies):
            world.store(batch, index, is_altered=number == 0 and world.happens("alter", 0.15))

    def _report(self, *, seals: bool = False, must_arrive: bool = False) -> None:
        """Say what is to be said: a report that was not acknowledged before all, and then nothing new until it is."""
        if self.unsent is not None:
            self._say(self.unsent, must_arrive=must_arrive)
            return
        if seals:
            self.moved_past = max(self.moved_past or 0, self.draw.choice(self.world.windows) + WINDOW_MS)
        past = self.moved_past
        windows: dict[int, list[SentRanges]] = {}
        for window, sent in self._pending:
            windows.setdefault(window, []).append(sent)
        self._pending = []
        held = None if self.holds is None else set() if self.is_closed else self._let_go()
        self._told_by[self.sequence] = (self._ended, held or set())
        self._ended = []
        report = ProducerReport(
            instance=self.instance,
            epoch=self.epoch,
            sequence=self.sequence,
            at_ms=0,
            state="closed" if self.is_closed else "open",
            producer_ids=(self.producer_id,),
            topics=(self.topic,),
            moved_past_ms=past,
            only_between_ms=self.between,
            holds=None if held is None else tuple(Hold(at, at + WINDOW_MS) for at in sorted(held)),
            windows=tuple(
                ProducerWindow(
                    topic=self.topic,
                    window_start_ms=window,
                    sent=tuple(windows.get(window, ())),
                    losses=dict(self.losses.get(window, {})),
                )
                for window in windows.keys() | self.losses.keys()
            ),
        )
        for window in self.world.windows:
            if self.is_closed or (past is not None and window + WINDOW_MS <= past):
                self.sealed.setdefault(window, self.sequence)
        self.sequence += 1
        self._say(report, must_arrive=must_arrive or report.sequence == 0)

    def _say(self, report: ProducerReport, *, must_arrive: bool) -> None:
        world = self.world
        has_arrived = report.sequence <= self.last_heard
        if not has_arrived:
            self.vanished.add(report.sequence)
        if not must_arrive and world.happens("lost_report", 0.25):
            self.unsent = report
            if self.draw.random() < 0.7:
                return
            # It arrived, and its acknowledgement did not.
        else:
            self.unsent = None
            self.promised = dict.fromkeys(self._told_by[report.sequence][1], report.sequence)
            if report.sequence and not has_arrived and world.happens("vanished_report", 0.1):
                return
        self.vanished.discard(report.sequence)
        told, held = self._told_by[report.sequence]
        for record in told:
            self.open.pop(record, None)
        if report.sequence >= self.last_heard:
            self.heard_holds = held
        self.last_heard = max(self.last_heard, report.sequence)
        world.publish(report)
        if world.happens("restart", 0.2):
            world.publish(report)

    def standing(self, batch: Batch) -> tuple[str | None, set[int], int]:
        """Return how the batch ended by what the audit topic has of it (None: nothing is said of its end), under which of its
        numbers it may stand by these words, and which of them were its last.
        """
        said = self.world.said
        last = len(batch.numbers) - 1
        if batch.numbers[last].crc not in said:
            rows = [at for at in range(last) if batch.numbers[at].crc in said]
            if not rows:
                return None, set(), last
            last = rows[-1] + 1
        first = last
        while first > 0 and batch.numbers[first - 1].crc in said:
            first -= 1
        return said.get(batch.numbers[last].crc), set(range(first, last + 1)), last

    @property
    def is_known(self) -> bool:
        """Whether its announcement is on the audit topic: of what it logs before, nothing is promised."""
        return self.last_heard >= 0

    @property
    def has_said_all(self) -> bool:
        return self.is_closed and not self.vanished

    def retire(self) -> None:
        self.is_retired = True
        self.world.publish(Retirement(instance=self.instance, epoch=self.epoch, at_ms=0, by="anna", reason="killed"))
