"""One history, drawn from a seed, and the audit that listens to it."""

import random
from collections.abc import Callable, Mapping

from headrace.audit.model import build_facts
from headrace.audit.model.facts import Verdict
from headrace.audit.model.messages import ProducerReport, Report, Skipped, Stretch
from headrace.audit.model.tier_reports import Journal, LiveBatch, LogKey, PartitionRead, TierReports
from headrace.audit.model.tiers import LIVE, OFFLINE

from .edges import Edges
from .hearing import GROUP, JumpingClock, hear, joined_batches, judged
from .memory_journal import MemoryJournal
from .producers import Run
from .records import ACKNOWLEDGED, TOPIC, UNCERTAIN, WINDOW_MS, Batch, Entry, Log
from .tiers import Tier, stretches

FAULTS = (
    "loss", "double", "alter", "silence", "restart", "uncertain", "renumber", "refused", "drop", "late", "kill", "fork", "clone",
    "lost_report", "vanished_report", "expiry", "corrupt", "foreign", "recount", "unreported", "quarantine", "replay", "stray",
    "retire",
)  # fmt: skip
EARLY = "early"
"""A run logs before its announcement is on the audit topic. Drawn by itself: a seed without it is as it was before."""


MEMORY = "memory"
"""Runs say what they hold, and are killed with events in memory; drawn as `EARLY` is."""


class World:
    """What happens in one history. Each kind of fault is possible in it or is not."""

    def __init__(self, seed: int, journal: Journal | None = None) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        share = self.random.choice([0.0, 0.1, 0.3, 0.5])
        self.faults = {name for name in FAULTS if self.random.random() < share}
        if random.Random(f"{EARLY} {seed}").random() < share:
            self.faults.add(EARLY)
        if random.Random(f"{MEMORY} {seed}").random() < 0.3:
            self.faults.add(MEMORY)
        self.partitions = list(range(self.random.randint(1, 2)))
        self.windows = [WINDOW_MS * at for at in range(self.random.randint(1, 3))]
        self.clock = JumpingClock(10_000_000)
        self.live = {partition: Log() for partition in self.partitions}
        self.mirror = Tier(self, "mirror", self.live, has_batches=True)
        self.offline = Tier(self, "offline", self.mirror.logs, has_batches=True)
        self.warehouse = Tier(self, "warehouse", self.offline.logs, has_batches=False)
        self.group = Tier(self, GROUP, self.live, has_batches=False)
        self.tellers = [self.mirror, self.warehouse, self.group]
        self.runs: list[Run] = []
        self.mentioned: set[int] = set()
        self.said: dict[int, str | None] = {}
        """CRC of a batch → what the audit topic has of its end; None: it was sent again under other numbers."""
        self.announced: set[int] = set()
        self.losses: dict[tuple[str, int, int], dict[str, int]] = {}
        """(instance, epoch, window) → what the run has said of its losses; each window that it has spoken of is here."""
        self.topic: list[Report] = []
        self._heard = 0
        self._numbers = 0
        self.journal: Journal = journal or MemoryJournal(WINDOW_MS)
        self.books = TierReports(WINDOW_MS)
        self.heard_all_ms: int | None = None
        self.position: dict[tuple[str, int], int] = {}
        self.was_read: set[tuple[int, int]] = set()
        """(partition, offset) of what the audit has read of live."""
        self.lost_after_reading: list[tuple[int, Entry]] = []
        """What was damaged on live after the audit had read it: the books remember it."""
        self.unread: list[tuple[int, int, int]] = []
        """(partition, from, to) of the live log that expired before the audit read it."""
        self.edges = Edges(self)

    @property
    def now_ms(self) -> int:
        """The audit's time, by a host's clock that may jump."""
        return self.clock.steady.now_ms()

    @now_ms.setter
    def now_ms(self, at_ms: int) -> None:
        self.clock.go_on(at_ms - self.now_ms)

    def happens(self, fault: str, share: float) -> bool:
        return fault in self.faults and self.random.random() < share

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def new_records(self, count: int) -> list[int]:
        return [self._next() for _ in range(count)]

    def new_crc(self) -> int:
        return 1_000_000 + self._next()

    def new_content(self) -> int:
        return self._next()

    # -- what happens ----------------------------------------------------------------------------------------------------

    def run(self, look: Callable[["World"], None] | None = None) -> "World":
        """Let everything happen; `look` is called at some moments in between."""
        self._make_runs()
        lives = [run.life() for run in (*self.runs, *self.edges.runs)]
        for tier in self.tellers:
            tier.announce()
        while lives:
            self.now_ms += self.random.randint(1, 5_000)
            if self.random.random() < 0.6:
                life = self.random.choice(lives)
                if next(life, "over") == "over":
                    lives.remove(life)
                continue
            self.random.choice(self._deeds())()
            if look is not None and self.random.random() < 0.2:
                look(self)
        self.edges.is_at_rest = True
        for _ in range(self.random.randint(0, 15)):
            self.now_ms += self.random.randint(1, 2_000)
            self.random.choice(self._deeds())()
            if look is not None and self.random.random() < 0.3:
                look(self)
        self._end(look)
        return self

    def _make_runs(self) -> None:
        for at in range(self.random.randint(1, 2)):
            self.runs.append(Run(self, f"host/app/{at}", self.now_ms - 10_000 + at, 700 + at))
        if "fork" in self.faults or "kill" in self.faults:
            self.runs.append(Run(self, "host/app/0", self.now_ms - 5_000, 750))
        if "replay" in self.faults:
            start = self.random.choice(self.windows)
            self.runs.append(Run(self, "host/replay", self.now_ms - 4_000, 760, between=(start, start + WINDOW_MS)))

        if MEMORY in self.faults:
            draw = random.Random(f"{MEMORY} {self.seed} runs")
            for run in self.runs:
                run.holds = set() if draw.random() < 0.8 else None

    def _deeds(self) -> list[Callable[[], None]]:
        deeds: list[Callable[[], None]] = [
            self.mirror.step, self.offline.step, self.warehouse.step, self.group.step, self.mirror.tell, self.warehouse.tell,
            self.group.tell, self.listen, lambda: self.read(LIVE), lambda: self.read(OFFLINE),
        ]  # fmt: skip
        deeds += [self._foreign] if "foreign" in self.faults else []
        deeds += [self._expire] if "expiry" in self.faults else []
        deeds += [self._corrupt] if "corrupt" in self.faults else []
        deeds += [self._recount] if "recount" in self.faults else []
        return deeds + self.edges.deeds()

    def _end(self, look: Callable[["World"], None] | None) -> None:
        for tier in (self.mirror, self.offline, self.warehouse, self.group):
            tier.step(to_end=True)
        for tier in self.tellers:
            tier.tell(to_end=True)
        self.now_ms += 60_000
        if "retire" in self.faults:
            for run in self.runs:
                if run.is_known and not run.has_said_all:
                    run.retire()
        self.listen()
        self.now_ms += 100
        for tier in (LIVE, OFFLINE):
            self.read(tier, to_end=True)
        self.now_ms += 100
        self.edges.end(look)
        self.listen()

    def store(self, batch: Batch, index: int, *, is_altered: bool) -> None:
        """Append a batch to the live log."""
        batch.is_altered |= is_altered
        numbers = batch.numbers[index]
        content, crc = (self.new_content(), self.new_crc()) if is_altered else (0, numbers.crc)
        log = self.edges.log_of(batch) or self.live[batch.partition]
        for at, record in enumerate(batch.records):
            log.held.append(
                Entry(
                    log.end + at,
                    record,
                    content,
                    crc,
                    batch.window,
                    numbers.producer_id,
                    numbers.epoch,
                    numbers.sequence + at,
                    index,
                )
            )
        log.end += len(batch.records) + self.random.randint(0, 4)

    def twin(self, run: Run, partition: int) -> Batch | None:
        """Return a batch of another run's own, acknowledged and reported, of which the numbers can be taken a second time.

        (None that stands twice, once altered: that copy may as well be the twin with another content. docs/AUDIT.md.)
        """
        found = [
            batch
            for other in self.runs
            for batch in other.batches
            if other is not run
            and batch.numbers[-1].producer_id == other.producer_id
            and batch.partition == partition
            and batch.end == ACKNOWLEDGED
            and not (batch.is_altered and len(batch.copies) > 1)
            and self.said.get(batch.numbers[-1].crc) == ACKNOWLEDGED
        ]
        return self.random.choice(found) if found else None

    def _foreign(self) -> None:
        """A program that reports nothing writes a batch, of more than one window perhaps."""
        log = self.live[self.random.choice(self.partitions)]
        if log.cut:
            return
        crc = self.new_crc()
        for record in self.new_records(self.random.randint(1, 3)):
            window = self.random.choice(self.windows)
            self.mentioned.add(window)
            log.held.append(Entry(log.end, record, 0, crc, window))
            log.end += 1

    def _expire(self) -> None:
        """Retention. (Not of what was damaged before: nobody could tell afterwards that it had been.)"""
        partition = self.random.choice(self.partitions)
        log = self.live[partition]
        if log.cut or any(why == "corrupt" for _, _, why in log.skipped):
            return
        borders = [one.offset for at, one in enumerate(log.held) if at == 0 or log.held[at - 1].crc != one.crc]
        if borders:
            log.begins_at = max(log.begins_at, self.random.choice([*borders, log.end]))

    def _corrupt(self) -> None:
        """A batch on the live log goes bad after the mirror and the group have read it. The audit is told to count again."""
        partition = self.random.choice(self.partitions)
        log = self.live[partition]
        if log.cut:
            return
        read = min(self.mirror.logs[partition].end, self.group.logs[partition].end)
        sound = {one.offset: one for one in self.mirror.logs[partition].held}
        bad = [
            one
            for one in log.held
            if log.begins_at <= one.offset < read and one.content == 0 and one.offset in sound and sound[one.offset].content == 0
        ]
        if not bad:
            return
        crc = self.random.choice(bad).crc
        same = [one.offset for one in log.held if one.crc == crc]
        low = self.random.choice(same)
        high = low + 1
        while low - 1 in same and low - 1 >= log.begins_at:
            low -= 1
        while high in same:  # a log holds a batch whole: no copy of it is damaged in part
            high += 1
        damaged = [one for one in log.held if low <= one.offset < high]
        self.lost_after_reading += [(partition, one) for one in damaged if (partition, one.offset) in self.was_read]
        log.held = [one for one in log.held if not low <= one.offset < high]
        log.skipped.append((low, high, "corrupt"))
        self.forget(LIVE, partition, log.begins_at)

    def _recount(self) -> None:
        tier = self.random.choice([LIVE, OFFLINE])
        for partition in self.partitions:
            self.forget(tier, partition, self.live[partition].begins_at if tier == LIVE else 0)

    def forget(self, tier: str, partition: int, start: int) -> None:
        log = self.books.log(LogKey(tier, TOPIC, partition))
        if log is None:
            return
        starts = {p: one.position for p, one in self.books.book(TOPIC).logs[tier].items()}
        self.books.forget(tier, TOPIC, starts | {partition: min(start, starts[partition])}, self.now_ms, self.journal)
        self.position[tier, partition] = min(start, starts[partition])
        self._log(tier, partition).told = [
            (low, min(high, start)) for low, high in self._log(tier, partition).told if low < start
        ]

    def forget_all(self, tier: str) -> None:
        """The audit counts a log again that it found shorter than it was."""
        self.books.forget(tier, TOPIC, {}, self.now_ms, self.journal)
        for partition in self.partitions:
            self.position.pop((tier, partition), None)
            self._log(tier, partition).told = []

    # -- what the audit hears --------------------------------------------------------------------------------------------

    def publish(self, report: Report) -> None:
        """Put a report on the audit topic."""
        self.topic.append(report)
        if isinstance(report, ProducerReport):
            self.announced.update(report.producer_ids)
            windows = [window for window in report.windows if window.topic == TOPIC]
            for window in windows:
                self.losses.setdefault((report.instance, report.epoch, window.window_start_ms), {}).update(window.losses)
            for sent in (sent for window in windows for sent in window.sent):
                for end, ranges in ((ACKNOWLEDGED, sent.acknowledged), (UNCERTAIN, sent.uncertain)):
                    self.said.update({one.crc: end for one in ranges if one.crc is not None})
                self.said.update({one.sent.crc: None for one in sent.renumbered if one.sent.crc is not None})

    def listen(self) -> None:
        """The audit reads its topic to the end."""
        for report in self.topic[self._heard :]:
            hear(self.books, report, self.now_ms, self.journal)
        self._heard = len(self.topic)
        self.heard_all_ms = self.now_ms

    @property
    def heard(self) -> int:
        """How much of its topic the audit has read."""
        return self._heard

    @property
    def has_heard_all(self) -> bool:
        """Whether the audit has read its topic to the end."""
        return self._heard == len(self.topic)

    def _log(self, tier: str, partition: int) -> Log:
        return self.live[partition] if tier == LIVE else self.offline.logs[partition]

    def read(self, tier: str, *, to_end: bool = False) -> None:
        """The audit reads a log on, to its end or to somewhere before."""
        for partition in self.partitions:
            log = self._log(tier, partition)
            known = self.position.get((tier, partition))
            if known is not None and known < log.begins_at:
                self._take(tier, partition, known, log.begins_at, [], (Skipped(known, log.begins_at, "expired"),))
                self.unread.append((partition, known, log.begins_at))
            if known is None and log.begins_at:
                self.unread.append((partition, 0, log.begins_at))
            start = max(known or 0, log.begins_at)
            entries = log.between(start, log.end)
            end = log.end if to_end or not entries else self.random.choice([log.end, *(one.offset for one in entries)])
            skipped = tuple(
                Skipped(max(low, start), min(high, end), why)
                for low, high, why in log.skipped
                if low < end and start < high and why == "corrupt"
            )
            self._take(tier, partition, start, end, log.between(start, end), skipped)
            if end == log.end:
                self.books.caught_up(LogKey(tier, TOPIC, partition), self.now_ms)

    def _take(self, tier: str, partition: int, start: int, end: int, entries: list[Entry], skipped: tuple[Skipped, ...]) -> None:
        windows: dict[int, list[LiveBatch | Stretch]] = {}
        for one in entries:
            if tier == LIVE:
                self.was_read.add((partition, one.offset))
                windows.setdefault(one.window, []).append(
                    LiveBatch(one.offset, 1, one.crc, one.producer_id, one.epoch, one.sequence)
                )
        if tier == LIVE:
            windows = {window: joined_batches(batches) for window, batches in windows.items()}
        else:
            windows = {
                window: list(stretches(one for one in entries if one.window == window))
                for window in {one.window for one in entries}
            }
        marked: dict[int, int] = {}
        for one in entries if tier == LIVE else ():
            if one.producer_id >= 0:
                marked.setdefault(one.producer_id, one.offset)
        read = PartitionRead(
            topic=TOPIC, partition=partition, from_offset=start, to_offset=end, windows=windows, skipped=skipped, marked=marked
        )
        self.books.take_read(tier, read, self.now_ms, self.journal)
        self.position[tier, partition] = end
        if not any(one.reason == "expired" for one in skipped):
            self._log(tier, partition).told.append((start, end))

    # -- what the audit says ---------------------------------------------------------------------------------------------

    def judge(
        self,
        window: int,
        *,
        later_ms: int = 0,
        books: TierReports | None = None,
        unheard: Mapping[int, tuple[int, int]] | None = None,
    ) -> Verdict | None:
        """Return the audit's verdict `later_ms` after the last report, the audit having listened all the time; None without
        one.
        """
        books = books or self.books
        book = books.book(TOPIC)
        is_mentioned = window in book.windows and book.windows[window].is_mentioned
        if not is_mentioned and window not in build_facts.held_windows(books, TOPIC):
            return None
        heard_all_ms = None if self.heard_all_ms is None else self.heard_all_ms + later_ms
        return judged(books, TOPIC, window, heard_all_ms=heard_all_ms, now_ms=self.now_ms + later_ms, unheard=unheard)
