"""A small world with a known truth: producers, logs and tiers that lose, double, repeat and fall silent, as they please.

The truth is counted from lists of single records. Nothing of the audit's model is used for it.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

from headrace.audit.model.build_facts import topic_facts, window_facts
from headrace.audit.model.facts import Verdict
from headrace.audit.model.messages import ProducerReport, ProducerWindow, RangeReport, RangeWindow, Retirement
from headrace.audit.model.tier_reports import LogKey, PartitionRead, ReadWindow, TierReports
from headrace.audit.model.tiers import CHAIN, LIVE, OFFLINE, rules
from headrace.audit.model.verdict import decide

WINDOW_MS = 600_000
TOPIC = "clicks"
GROUP = "consumer:rates"
DEADLINE_MS = 20_000
BEFORE = {"live": "producer", "mirror": "live", "offline": "mirror", "warehouse": "offline", GROUP: "live"}
ORDER = [*CHAIN, GROUP]


class NoJournal:
    """Writes nothing down."""

    def __getattr__(self, name: str) -> object:
        return lambda *arguments: None


@dataclass
class Batch:
    base_offset: int
    next_offset: int
    records: list[tuple[int, int]]
    """(window, producer id) of each record."""


@dataclass
class Tier:
    """What a tier really has: of each batch, how many of which window came out, and how many it put aside by name."""

    out: dict[int, list[Counter[int]]] = field(default_factory=dict)
    quarantined: dict[int, list[Counter[int]]] = field(default_factory=dict)
    told_batches: dict[int, int] = field(default_factory=dict)
    """Partition → how many batches from the start it has told of."""


class World:
    """One history, drawn from a seed. `fault_share` is the chance of each fault."""

    def __init__(self, seed: int, *, losses: bool, doubles: bool, silences: bool) -> None:
        self.random = random.Random(seed)
        self.losses, self.doubles, self.silences = losses, doubles, silences
        self.partitions = list(range(self.random.randint(1, 3)))
        self.windows = [WINDOW_MS * at for at in range(self.random.randint(1, 4))]
        self.instances = [f"host/app/{at}" for at in range(self.random.randint(1, 3))]
        self.acknowledged: dict[str, Counter[tuple[int, int]]] = {name: Counter() for name in self.instances}
        self.unaudited: Counter[int] = Counter()
        self.unsealed: set[str] = set()
        self.retired: set[str] = set()
        self.last_words: dict[str, Counter[tuple[int, int]]] = {}
        """Killed instance → what it had said by then."""
        self.mentioned: set[int] = set()
        self.logs: dict[int, list[Batch]] = {partition: [] for partition in self.partitions}
        self.tiers: dict[str, Tier] = {}
        self.books = TierReports(WINDOW_MS)
        self.now_ms = 1_000_000
        self._make_logs()
        self._make_tiers()

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def _make_logs(self) -> None:
        """Producers log; what they were told is stored may be lost or stored twice."""
        position = {partition: 0 for partition in self.partitions}
        for _ in range(self.random.randint(1, 12)):
            partition = self.random.choice(self.partitions)
            producer = self.random.randrange(-1, len(self.instances))
            windows = [self.random.choice(self.windows) for _ in range(self.random.randint(1, 4))]
            stored = list(windows)
            if producer >= 0:
                for window in windows:
                    self.acknowledged[self.instances[producer]][window, partition] += 1
                    self.mentioned.add(window)
                if self.losses and self.chance(0.15):
                    stored = stored[1:]
                if self.doubles and self.chance(0.15):
                    stored.append(windows[0])
            if not stored:
                continue
            for window in stored:
                self.mentioned.add(window)
                if producer < 0:
                    self.unaudited[window] += 1
            base = position[partition]
            position[partition] = base + max(len(stored), self.random.randint(1, 300))
            records = [(window, 700 + producer if producer >= 0 else -1) for window in stored]
            self.logs[partition].append(Batch(base, position[partition], records))

    def _make_tiers(self) -> None:
        for name in ORDER[1:]:
            tier = self.tiers[name] = Tier()
            before = self.tiers.get(BEFORE[name])
            for partition, batches in self.logs.items():
                came_in = (
                    [Counter(window for window, _ in batch.records) for batch in batches]
                    if name == LIVE or before is None
                    else before.out[partition]
                )
                out, aside = [], []
                for counts in came_in:
                    kept, put_aside = Counter(counts), Counter[int]()
                    if name != LIVE and counts and self.losses and self.chance(0.08):
                        kept[self.random.choice(list(counts))] -= 1
                    if name != LIVE and counts and self.doubles and self.chance(0.08):
                        kept[self.random.choice(list(counts))] += 1
                    if name in ("warehouse", GROUP) and +kept and self.chance(0.1):
                        window = self.random.choice(list(+kept))
                        kept[window] -= 1
                        put_aside[window] += 1
                    out.append(+kept)
                    aside.append(put_aside)
                tier.out[partition], tier.quarantined[partition] = out, aside
                stops = self.silences and self.chance(0.12)
                tier.told_batches[partition] = self.random.randint(0, len(batches)) if stops else len(batches)

    # -- the truth --------------------------------------------------------------------------------------------------------

    def truth(self, window: int) -> tuple[int, int, str | None]:
        """Return (missing, extra, first tier that differs from the one before), counted record by record."""
        missing = extra = 0
        first: str | None = None
        for name in ORDER[1:]:
            bad = 0
            for partition in self.partitions:
                for came_in, went_out in self._both_sides(name, partition, window):
                    missing += max(0, came_in - went_out)
                    extra += max(0, went_out - came_in)
                    bad += abs(came_in - went_out)
            if bad and first is None:
                first = name
        return missing, extra, first

    def _both_sides(self, name: str, partition: int, window: int) -> list[tuple[int, int]]:
        if name == LIVE:
            found = []
            for at, instance in enumerate(self.instances):
                stored = sum(
                    1
                    for batch in self.logs[partition]
                    for one, producer_id in batch.records
                    if (one, producer_id) == (window, 700 + at)
                )
                said = self.acknowledged[instance][window, partition]
                # Of a retired one only the word is known: what it never told is nobody's surplus.
                found.append((said, min(said, stored) if instance in self.retired else stored))
            return found
        tier, before = self.tiers[name], self.tiers[BEFORE[name]]
        came_in = sum(counts[window] for counts in before.out[partition])
        went_out = sum(counts[window] for counts in tier.out[partition]) + sum(c[window] for c in tier.quarantined[partition])
        return [(came_in, went_out)]

    def count(self, name: str, window: int) -> int:
        if name == "producer":
            return sum(n for by in self.acknowledged.values() for (one, _), n in by.items() if one == window)
        return sum(counts[window] for by_batch in self.tiers[name].out.values() for counts in by_batch)

    def is_told(self, window: int) -> bool:
        """Return whether every tier has told of every batch in which the tier before it holds the window."""
        if self.unsealed:
            return False
        for name in ORDER[1:]:
            for partition in self.partitions:
                rest = slice(self.tiers[name].told_batches[partition], None)
                held = [Counter(one for one, _ in batch.records) for batch in self.logs[partition]]
                if BEFORE[name] in self.tiers:
                    held = self.tiers[BEFORE[name]].out[partition]
                if any(counts[window] for counts in held[rest]):
                    return False
        return True

    @property
    def all_told(self) -> bool:
        return not self.unsealed and all(
            tier.told_batches[partition] == len(self.logs[partition])
            for tier in self.tiers.values()
            for partition in self.partitions
        )

    # -- what the audit hears -----------------------------------------------------------------------------------------------

    def tell(self, journal: object | None = None) -> None:
        """Tell the books everything, in an order and with repetitions that are drawn."""
        self.journal = journal or NoJournal()
        steps = [lambda name=name: self._tell_producer(name) for name in self.instances]
        steps += [lambda name=name: self._tell_tier(name) for name in ORDER[1:]]
        self.random.shuffle(steps)
        for step in steps:
            self.now_ms += self.random.randint(1, 5_000)
            step()
        self.now_ms += 100
        self._catch_up()

    def _catch_up(self) -> None:
        for partition in self.partitions:
            if self.tiers[LIVE].told_batches[partition] == len(self.logs[partition]):
                self.books.caught_up(LogKey(LIVE, TOPIC, partition), self.now_ms)

    def _tell_producer(self, instance: str) -> None:
        by_window: dict[int, dict[int, int]] = {}
        for (window, partition), count in self.acknowledged[instance].items():
            by_window.setdefault(window, {})[partition] = count
        is_killed = self.silences and self.chance(0.15)
        if is_killed:
            self.unsealed.add(instance)
        stages = [{}, {w: {p: n - n // 2 for p, n in by.items()} for w, by in by_window.items()}, by_window]
        for number, windows in enumerate(stages):
            is_last = number == len(stages) - 1
            if is_last and is_killed:
                self.last_words[instance] = Counter({(w, p): n for w, by in stages[1].items() for p, n in by.items()})
                return
            report = ProducerReport(
                instance=instance,
                epoch=5,
                sequence=number,
                at_ms=0,
                state="closed" if is_last else "open",
                producer_ids=(700 + self.instances.index(instance),),
                topics=(TOPIC,),
                windows=tuple(
                    ProducerWindow(topic=TOPIC, window_start_ms=window, counts=counts, losses={})
                    for window, counts in windows.items()
                ),
            )
            for _ in range(self.random.choice([1, 1, 2])):
                self.books.take_producer(report, self.now_ms, self.journal, is_audited=lambda topic: True)

    def retire_the_dead(self) -> None:
        """Somebody says of every killed producer that nothing more will come; the live log is read on to its end."""
        self.now_ms += 60_000
        for instance in self.unsealed:
            word = Retirement(instance=instance, epoch=5, at_ms=0, by="anna", reason="killed")
            self.books.take_retirement(word, self.now_ms, self.journal)
            self.acknowledged[instance] = self.last_words[instance]
        self.retired, self.unsealed = self.unsealed, set()
        self.now_ms += 100
        self._catch_up()

    def _tell_tier(self, name: str) -> None:
        for partition in self.partitions:
            told = self.tiers[name].told_batches[partition]
            if name in (LIVE, OFFLINE):
                self._read_back(name, partition, told)
            else:
                self._report(name, partition, told)

    def _read_back(self, name: str, partition: int, told: int) -> None:
        at = 0
        offset = 0
        self.books.take_read(
            name,
            PartitionRead(topic=TOPIC, partition=partition, from_offset=0, to_offset=0, windows={}),
            self.now_ms,
            self.journal,
        )
        while at < told:
            end = min(told, at + self.random.randint(1, 3))
            windows: dict[int, ReadWindow] = {}
            for number in range(at, end):
                batch = self.logs[partition][number]
                counts = self.tiers[name].out[partition][number]
                producers = Counter(batch.records) if name == LIVE else Counter({(w, 0): n for w, n in counts.items()})
                for (window, producer_id), count in producers.items():
                    known = windows.get(window)
                    by_producer = dict(known.by_producer) if known else {}
                    by_producer[producer_id] = by_producer.get(producer_id, 0) + count
                    windows[window] = ReadWindow(
                        first_offset=known.first_offset if known else batch.base_offset,
                        end_offset=batch.next_offset,
                        by_producer=by_producer,
                    )
            to_offset = self.logs[partition][end - 1].next_offset
            read = PartitionRead(topic=TOPIC, partition=partition, from_offset=offset, to_offset=to_offset, windows=windows)
            self.books.take_read(name, read, self.now_ms, self.journal)
            at, offset = end, to_offset

    def _report(self, name: str, partition: int, told: int) -> None:
        """Report range by range from the noted position on; after a lost note the next begins where the last one did."""
        self._say(name, partition, 0, 0)
        noted = 0
        while noted < told:
            end = min(told, noted + self.random.randint(1, 4))
            self._say(name, partition, noted, end)
            if self.chance(0.2):
                self._say(name, partition, noted, end)
            if self.chance(0.65):
                noted = end

    def _say(self, name: str, partition: int, first: int, last: int) -> None:
        windows: dict[int, RangeWindow] = {}
        tier = self.tiers[name]
        out = sum(tier.out[partition][first:last], Counter[int]())
        aside = sum(tier.quarantined[partition][first:last], Counter[int]())
        for window in out.keys() | aside.keys():
            windows[window] = RangeWindow(count=out[window], quarantined=aside[window])
        offsets = [0, *(batch.next_offset for batch in self.logs[partition])]
        report = RangeReport(
            tier=name,
            instance="one",
            at_ms=0,
            topic=TOPIC,
            partition=partition,
            from_offset=offsets[first],
            to_offset=offsets[last],
            windows=windows,
        )
        self.books.take_range(report, self.now_ms, self.journal)

    # -- what the audit says ------------------------------------------------------------------------------------------------

    def judge(self, window: int, *, later_ms: int = 0, books: TierReports | None = None) -> Verdict:
        """Return the audit's verdict `later_ms` after the last word, the audit having listened all the time."""
        books = books or self.books
        now_ms = self.now_ms + 1 + later_ms
        facts = topic_facts(
            books,
            TOPIC,
            rules=rules([*CHAIN, GROUP], books.topics[TOPIC].logs, {"warehouse": 2 * DEADLINE_MS}, DEADLINE_MS),
            heard_all_ms=now_ms,
            listening_since_ms=0,
            presumed_dead_ms=3_600_000,
        )
        return decide(facts, window_facts(books, TOPIC, window), now_ms=now_ms)
