"""A short way to tell the books a story of one topic with one partition, and to ask for the verdict at any moment."""

from collections.abc import Mapping

from headrace.audit.model.build_facts import topic_facts, window_facts
from headrace.audit.model.facts import Verdict
from headrace.audit.model.messages import ProducerReport, ProducerWindow, RangeReport, RangeWindow, Retirement
from headrace.audit.model.tier_reports import LogKey, PartitionRead, ReadWindow, TierReports
from headrace.audit.model.tiers import CHAIN, rules
from headrace.audit.model.verdict import decide

from .world import NoJournal

W = 600_000
TOPIC = "clicks"
DEADLINE_MS = 20_000
DEAD_MS = 3_600_000


class Story:
    """Time moves only by `wait`; everything told is heard at once."""

    def __init__(self, tiers: tuple[str, ...] = CHAIN, now_ms: int = 10_000_000_000) -> None:
        self.books = TierReports(W)
        self.tiers = tiers
        self.now_ms = now_ms
        self.heard_ms: int | None = None
        """When the audit topic was last heard; None: it is heard all the time."""
        self.listening_since_ms = 0
        self._sequences: dict[tuple[str, int], int] = {}

    def wait(self, ms: int) -> "Story":
        self.now_ms += ms
        return self

    def producer(
        self,
        instance: str = "app",
        *,
        windows: Mapping[int, Mapping[int, int]] | None = None,
        losses: Mapping[int, Mapping[str, int]] | None = None,
        closed: bool = False,
        epoch: int = 1,
        ids: tuple[int, ...] = (7,),
        past_ms: int | None = None,
        skip: int = 0,
        restates_from: int | None = None,
        sequence: int | None = None,
    ) -> "Story":
        """`windows`: window number → partition → records. `skip` reports get lost before this one."""
        key = (instance, epoch)
        if sequence is None:
            sequence = self._sequences.get(key, 0) + skip
            self._sequences[key] = sequence + 1
        told = set(windows or {}) | set(losses or {})
        report = ProducerReport(
            instance=instance,
            epoch=epoch,
            sequence=sequence,
            at_ms=0,
            state="closed" if closed else "open",
            producer_ids=ids,
            topics=(TOPIC,),
            moved_past_ms=past_ms,
            restates_from=restates_from,
            windows=tuple(
                ProducerWindow(
                    topic=TOPIC,
                    window_start_ms=at * W,
                    counts=dict((windows or {}).get(at, {})),
                    losses=dict((losses or {}).get(at, {})),
                )
                for at in told
            ),
        )
        self.books.take_producer(report, self.now_ms, NoJournal(), is_audited=lambda topic: True)
        return self

    def retire(self, instance: str = "app", *, epoch: int = 1, by: str = "anna", reason: str = "its host burned") -> "Story":
        word = Retirement(instance=instance, epoch=epoch, at_ms=0, by=by, reason=reason)
        self.books.take_retirement(word, self.now_ms, NoJournal())
        return self.wait(1)

    def read(
        self, tier: str, to_offset: int, windows: Mapping[int, Mapping[int, int]] | None = None, partition: int = 0
    ) -> "Story":
        """Read `tier` back up to `to_offset`, its end now. `windows`: window number → producer id → records."""
        key = LogKey(tier, TOPIC, partition)
        at = self.books.position(key) or 0
        found = {
            number * W: ReadWindow(first_offset=at, end_offset=to_offset, by_producer=by_producer)
            for number, by_producer in (windows or {}).items()
        }
        read = PartitionRead(topic=TOPIC, partition=partition, from_offset=at, to_offset=to_offset, windows=found)
        self.books.take_read(tier, read, self.now_ms, NoJournal())
        self.now_ms += 1
        self.books.caught_up(key, self.now_ms)
        return self

    def tell(
        self, tier: str, from_offset: int, to_offset: int, windows: Mapping[int, int] | None = None, *, quarantined: int = 0
    ) -> "Story":
        """Have `tier` report a range of partition 0. `windows`: window number → records."""
        found = {number * W: RangeWindow(count=count, quarantined=quarantined) for number, count in (windows or {}).items()}
        report = RangeReport(
            tier=tier,
            instance="one",
            at_ms=0,
            topic=TOPIC,
            partition=0,
            from_offset=from_offset,
            to_offset=to_offset,
            windows=found,
        )
        self.books.take_range(report, self.now_ms, NoJournal())
        return self

    def beat(self, instance: str = "app", *, for_ms: int, epoch: int = 1) -> "Story":
        """Let time pass while the producer gives signs of life."""
        for _ in range(0, for_ms, 5_000):
            self.wait(5_000).producer(instance, epoch=epoch)
        return self

    def all_tiers(self, offset: int, windows: Mapping[int, int]) -> "Story":
        """Every later tier holds and reports what the producer 7 had acknowledged, up to `offset`."""
        self.read("live", offset, {number: {7: count} for number, count in windows.items()})
        self.tell("mirror", 0, offset, windows)
        self.read("offline", offset, {number: {7: count} for number, count in windows.items()})
        return self.tell("warehouse", 0, offset, windows)

    def verdict(self, window: int = 0) -> Verdict:
        facts = topic_facts(
            self.books,
            TOPIC,
            rules=rules(self.tiers, self.books.topics[TOPIC].logs, {"warehouse": 120_000}, DEADLINE_MS),
            heard_all_ms=self.now_ms if self.heard_ms is None else self.heard_ms,
            listening_since_ms=self.listening_since_ms,
            presumed_dead_ms=DEAD_MS,
        )
        return decide(facts, window_facts(self.books, TOPIC, window * W), now_ms=self.now_ms)
