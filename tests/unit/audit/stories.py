"""A short way to tell the books a story of one topic, and to ask for the verdict at any moment.

Every record is a batch of its own. Producer 7 numbers its records 0, 1, 2, … in each partition; the live log takes them in that
order; later tiers hold what the live log holds at the same offsets, as many records as the story says.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.audit.model.build_facts import topic_facts, window_facts
from headrace.audit.model.facts import Verdict
from headrace.audit.model.messages import (
    Hold,
    KnownDifference,
    ProducerReport,
    ProducerWindow,
    RangeReport,
    RangeWindow,
    Retirement,
    SentRanges,
    Skipped,
    Stretch,
)
from headrace.audit.model.tier_reports import LiveBatch, LogKey, Outcome, PartitionRead, TierReports
from headrace.audit.model.tiers import CHAIN, LIVE, Spans, rules
from headrace.audit.model.verdict import decide

from .no_journal import NoJournal

W = 600_000
TOPIC = "clicks"
DEADLINE_MS = 20_000


def crc_of(*identity: int) -> int:
    """Return a CRC that no other record of the story has."""
    return hash(identity) & 0xFFFFFFFF


class Story:
    """Time moves only by `wait`; everything told is heard at once."""

    def __init__(self, tiers: tuple[str, ...] = CHAIN, now_ms: int = 10_000_000_000) -> None:
        self.books = TierReports(W)
        self.journal: Any = NoJournal()
        self.tiers = tiers
        self.named: dict[str, Spans] = {}
        """Group → the windows in whose verdict an operator has it take part."""
        self.now_ms = now_ms
        self.heard_ms: int | None = None
        """When the audit topic was last heard; None: it is heard all the time."""
        self.listening_since_ms = 0
        self.live: dict[tuple[int, int], list[LiveBatch]] = {}
        """(partition, window number) → the live log's batches."""
        self._sequences: dict[tuple[str, int], int] = {}
        self._sent: dict[tuple[int, int], int] = {}
        """(producer id, partition) → its next sequence number."""
        self._unread: dict[tuple[int, int, int], list[int]] = {}
        """(producer id, partition, window number) → sequence numbers that were reported and are not in the live log yet."""
        self._unreported: dict[tuple[int, int, int], list[int]] = {}
        """… → sequence numbers that are in the live log and were not reported yet."""

    def wait(self, ms: int) -> "Story":
        self.now_ms += ms
        return self

    def send(self, number: int, count: int, *, producer_id: int = 7, partition: int = 0) -> tuple[Stretch, ...]:
        """Give the next `count` records of a producer numbers, each a batch."""
        early = self._unreported.setdefault((producer_id, partition, number), [])
        stored, early[:] = early[:count], early[count:]
        fresh = self._fresh(count - len(stored), producer_id, partition)
        self._unread.setdefault((producer_id, partition, number), []).extend(fresh)
        return tuple(Stretch(at, 1, crc_of(producer_id, partition, at)) for at in (*stored, *fresh))

    def _fresh(self, count: int, producer_id: int, partition: int) -> list[int]:
        first = self._sent.get((producer_id, partition), 0)
        self._sent[producer_id, partition] = first + count
        return list(range(first, first + count))

    def producer(
        self,
        instance: str = "app",
        *,
        windows: Mapping[int, Mapping[int, int]] | None = None,
        uncertain: Mapping[int, Mapping[int, int]] | None = None,
        sent: Mapping[int, tuple[SentRanges, ...]] | None = None,
        losses: Mapping[int, Mapping[str, int]] | None = None,
        closed: bool = False,
        epoch: int = 1,
        ids: tuple[int, ...] = (7,),
        past_ms: int | None = None,
        between: tuple[int, int] | None = None,
        holds: Mapping[int, int] | None = None,
        skip: int = 0,
        sequence: int | None = None,
    ) -> "Story":
        """`windows` (acknowledged), `uncertain`: window number → partition → more records; `sent`: as they stand.

        `skip` reports get lost before this one. `holds`: window number → records under way; None: it does not say.
        """
        key = (instance, epoch)
        if sequence is None:
            sequence = self._sequences.get(key, 0) + skip
            self._sequences[key] = sequence + 1
        told: dict[int, list[SentRanges]] = {at: list(ranges) for at, ranges in (sent or {}).items()}
        for kind, ends in (("acknowledged", windows), ("uncertain", uncertain)):
            for at, by_partition in (ends or {}).items():
                for partition, count in by_partition.items():
                    stretches = self.send(at, count, producer_id=ids[0], partition=partition)
                    ranges: dict[str, Any] = {kind: stretches}
                    told.setdefault(at, []).append(
                        SentRanges(partition=partition, producer_id=ids[0], producer_epoch=0, **ranges)
                    )
        report = ProducerReport(
            instance=instance,
            epoch=epoch,
            sequence=sequence,
            at_ms=0,
            state="closed" if closed else "open",
            producer_ids=ids,
            topics=(TOPIC,),
            moved_past_ms=past_ms,
            only_between_ms=between,
            holds=None if holds is None else tuple(Hold(at * W, (at + 1) * W, count) for at, count in sorted(holds.items())),
            windows=tuple(
                ProducerWindow(
                    topic=TOPIC,
                    window_start_ms=at * W,
                    sent=tuple(told.get(at, ())),
                    losses=dict((losses or {}).get(at, {})),
                )
                for at in told.keys() | set(losses or {})
            ),
        )
        self.last_report = report
        return self.report(report)

    def report(self, report: ProducerReport) -> "Story":
        self.books.take_producer(report, self.now_ms, self.journal, is_audited=lambda topic: True)
        return self

    def again(self, **changes: Any) -> "Story":
        """The last producer's report is heard again."""
        return self.report(replace(self.last_report, **changes))

    def retire(self, instance: str = "app", *, epoch: int = 1, by: str = "anna", reason: str = "its host burned") -> "Story":
        word = Retirement(instance=instance, epoch=epoch, at_ms=0, by=by, reason=reason)
        self.books.take_retirement(word, self.now_ms, self.journal)
        return self.wait(1)

    def known(self, tier: str, *, kind: Any = "lost", missing: int = 0, doubled: int = 0, altered: int = 0) -> "Story":
        word = KnownDifference(
            topic=TOPIC, window_start_ms=0, tier=tier, kind=kind, missing=missing, doubled=doubled, altered=altered, at_ms=0,
            by="anna", reason="seen",
        )  # fmt: skip
        self.books.take_known_difference(word, self.journal)
        return self

    def read(
        self,
        tier: str,
        to_offset: int,
        windows: Mapping[int, Mapping[int, int]] | None = None,
        partition: int = 0,
        *,
        skipped: tuple[Skipped, ...] = (),
        from_offset: int | None = None,
    ) -> "Story":
        """Read `tier` back up to `to_offset`, its end now. `windows`: window number → producer id → records."""
        key = LogKey(tier, TOPIC, partition)
        at = from_offset if from_offset is not None else self.books.position(key) or 0
        found: dict[int, list[LiveBatch | Stretch]] = {}
        told = sum(count for by_producer in (windows or {}).values() for count in by_producer.values())
        offsets = iter(at + n * (to_offset - at) // max(told, 1) for n in range(told))
        for number, by_producer in (windows or {}).items():
            for producer_id, count in by_producer.items():
                if tier != LIVE:
                    found.setdefault(number * W, []).extend(self._held(number, at, to_offset, count, partition))
                    continue
                place = producer_id, partition, number
                unread = self._unread.setdefault(place, [])
                early = self._fresh(max(0, count - len(unread)), producer_id, partition)
                self._unreported.setdefault(place, []).extend(early)
                batches = [
                    LiveBatch(next(offsets), 1, crc_of(producer_id, partition, sequence), producer_id, 0, sequence)
                    for sequence in [*unread[:count], *early]
                ]
                del unread[:count]
                self.live.setdefault((partition, number), []).extend(batches)
                found.setdefault(number * W, []).extend(batches)
        return self.take_read(tier, at, to_offset, found, partition, skipped=skipped)

    def take_read(
        self,
        tier: str,
        from_offset: int,
        to_offset: int,
        windows: Mapping[int, list[LiveBatch | Stretch]],
        partition: int = 0,
        *,
        skipped: tuple[Skipped, ...] = (),
    ) -> "Story":
        """Read `tier` back up to `to_offset`, its end now. `windows`: window start → batches."""
        read = PartitionRead(
            topic=TOPIC, partition=partition, from_offset=from_offset, to_offset=to_offset, windows=windows, skipped=skipped
        )
        self.books.take_read(tier, read, self.now_ms, self.journal)
        self.now_ms += 1
        self.books.caught_up(LogKey(tier, TOPIC, partition), self.now_ms)
        return self

    def _held(self, number: int, from_offset: int, to_offset: int, count: int, partition: int = 0) -> list[Stretch]:
        """Return the first `count` records of the live log there; more than there are: the last one again and again."""
        batches = [one for one in self.live.get((partition, number), []) if from_offset <= one.first < to_offset]
        batches += [batches[-1]] * (count - len(batches)) if batches else []
        return [Stretch(*one[:3]) for one in batches[:count]]

    def tell(
        self,
        tier: str,
        from_offset: int,
        to_offset: int,
        windows: Mapping[int, int] | None = None,
        *,
        quarantined: int = 0,
        skipped: tuple[Skipped, ...] = (),
    ) -> "Story":
        """Have `tier` report a range of partition 0. `windows`: window number → records held; `quarantined`: those behind."""
        found = {}
        for number, count in (windows or {}).items():
            records = self._held(number, from_offset, to_offset, count + quarantined)
            found[number * W] = RangeWindow(held=tuple(records[:count]), quarantined=tuple(records[count:]))
        self.tell_range(tier, from_offset, to_offset, found, skipped=skipped)
        return self

    def tell_range(
        self,
        tier: str,
        from_offset: int,
        to_offset: int,
        windows: Mapping[int, RangeWindow],
        *,
        skipped: tuple[Skipped, ...] = (),
    ) -> Outcome:
        report = RangeReport(
            tier=tier,
            instance="one",
            at_ms=0,
            topic=TOPIC,
            partition=0,
            from_offset=from_offset,
            to_offset=to_offset,
            windows=windows,
            skipped=skipped,
        )
        return self.books.take_range(report, self.now_ms, self.journal)

    def forget(self, tier: str, log_starts: Mapping[int, int]) -> "Story":
        self.books.forget(tier, TOPIC, log_starts, self.now_ms, self.journal)
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
            rules=rules(self.tiers, self.books.book(TOPIC).logs, {"warehouse": 120_000}, DEADLINE_MS, self.named),
            heard_all_ms=self.now_ms if self.heard_ms is None else self.heard_ms,
            listening_since_ms=self.listening_since_ms,
        )
        return decide(facts, window_facts(self.books, TOPIC, window * W), now_ms=self.now_ms)
