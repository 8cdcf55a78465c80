"""The audit service's parts behind one store, without a cluster, and reports for them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.audit.model.codec import encode
from headrace.audit.model.messages import (
    ProducerReport,
    ProducerWindow,
    RangeReport,
    RangeWindow,
    Report,
    SentRanges,
    Skipped,
    Stretch,
)
from headrace.audit.model.tier_reports import LiveBatch, PartitionRead
from headrace.audit.model.tiers import LIVE
from headrace.audit.service.judge import Judge
from headrace.audit.service.settings import AuditSettings, TopicTiers
from headrace.audit.service.store.ledger import Ledger, Message
from headrace.audit.service.store.log_books import LogRead
from headrace.audit.service.store.opening import database_at
from headrace.audit.service.web.endpoints import Site
from headrace.client.connection.control_plane import ClusterFacts, Listing
from headrace.client.fetch.fetched import TopicPartition
from headrace.runtime.clock import ManualClock

W = 600_000
T0 = 1_431_849_600_000  # 2015-05-17 08:00 UTC
START_MS = 1_800_000_000_000
SHORT = AuditSettings(default_topic=TopicTiers(required=("producer", "live", "mirror")))
CRC = 99

Windows = Mapping[int, int]
"""Window start → how many records. They stand behind each other, window by window in this order, from offset (and sequence
number) 0 or from the range's start on.
"""


class Service:
    """The parts behind one store; `restart` is a kill: nothing is closed in order."""

    def __init__(self, store: str | Path, settings: AuditSettings = SHORT) -> None:
        self.store = store
        self.settings = settings
        self.clock = ManualClock(START_MS)
        self.changes: list[Mapping[str, Any]] = []
        self.sink_changes: list[Mapping[str, Any]] = []
        self.begin()

    def begin(self) -> None:
        self.database = database_at(self.store)
        self.database.open()
        self.ledger = Ledger(self.database, self.settings, self.clock)
        self.ledger.books.open()
        self.judge = Judge(self.ledger, self.clock, self.changes.extend, self.sink_changes.extend)
        self.judge.open()

    def restart(self) -> None:
        self.database.close()
        self.begin()

    def report(self, *reports: Report | bytes, offset: int = 0, came_ms: int | None = None) -> None:
        messages = [
            Message(0, offset + at, one if isinstance(one, bytes) else encode(one), came_ms) for at, one in enumerate(reports)
        ]
        self.ledger.take_reports(messages, {}, {0: offset + len(messages)})

    def read(
        self,
        tier: str,
        from_offset: int,
        to_offset: int,
        counts: Windows,
        topic: str = "clicks",
        *,
        first_sequence: int | None = None,
        skipped: tuple[Skipped, ...] = (),
        crc: int = CRC,
    ) -> bool:
        generation, _ = self.ledger.logs.positions(tier)
        found = read_of(tier, from_offset, to_offset, counts, topic, first_sequence=first_sequence, skipped=skipped, crc=crc)
        self.clock.advance(1)
        asked_ms = self.clock.now_ms()
        return self.ledger.logs.take_reads(tier, generation, [LogRead(found=found)], {TopicPartition(topic, 0): asked_ms})

    def hear(self) -> None:
        self.clock.advance(1)
        self.ledger.heard_all(self.clock.now_ms(), {})

    def windows(self, topic: str = "clicks", **asked: Any) -> list[dict[str, Any]]:
        self.judge.bring_up_to_date(topic)
        return self.ledger.books.verdict(lambda stored: stored.page(topic, limit=1_000, **asked))

    def verdicts(self, topic: str = "clicks") -> dict[int, str]:
        return {one["window_start_ms"]: one["verdict"] for one in self.windows(topic)}

    def site(
        self,
        not_ready: Callable[[], list[str]] = list,
        faults: Callable[[], list[str]] = list,
        console: str | None = None,
    ) -> Site:
        return Site(
            not_ready=not_ready,
            faults=faults,
            recount=lambda tier, topic: self.ledger.logs.recount(tier, topic, {0: 0}),
            console=console,
        )


def listing_of(topics: Sequence[str], partitions: Sequence[int] = (0,)) -> Listing:
    """A cluster's answer: these topics, with an id each."""
    facts = ClusterFacts(brokers={}, controller_id=-1, topics={})
    ids = {name: f"id of {name}" for name in topics}
    return Listing(facts=facts, partitions=dict.fromkeys(topics, tuple(partitions)), ids=ids, answered=(0, b""))


def read_of(
    tier: str,
    from_offset: int,
    to_offset: int,
    counts: Windows,
    topic: str = "clicks",
    *,
    first_sequence: int | None = None,
    skipped: tuple[Skipped, ...] = (),
    crc: int = CRC,
) -> PartitionRead:
    """Return what a reader found; by default sequence numbers are offsets."""
    windows: dict[int, list[LiveBatch | Stretch]] = {}
    at = from_offset
    shift = 0 if first_sequence is None else first_sequence - from_offset
    for start, count in counts.items():
        windows[start] = [LiveBatch(at, count, crc, 7, 0, at + shift) if tier == LIVE else Stretch(at, count, crc)]
        at += count
    return PartitionRead(topic=topic, partition=0, from_offset=from_offset, to_offset=to_offset, windows=windows, skipped=skipped)


def producer(counts: Windows, *, closed: bool = True, sequence: int = 0, first: int = 0, topic: str = "clicks") -> ProducerReport:
    windows = []
    for start, count in counts.items():
        sent = SentRanges(partition=0, producer_id=7, producer_epoch=0, acknowledged=(Stretch(first, count, CRC),))
        windows.append(ProducerWindow(topic=topic, window_start_ms=start, sent=(sent,)))
        first += count
    return ProducerReport(
        instance="host/app/1",
        epoch=1,
        sequence=sequence,
        at_ms=1,
        state="closed" if closed else "open",
        producer_ids=(7,),
        topics=(topic,),
        windows=tuple(windows),
    )


def mirror(from_offset: int, to_offset: int, counts: Windows, *, tier: str = "mirror", topic: str = "clicks") -> RangeReport:
    windows: dict[int, RangeWindow] = {}
    at = from_offset
    for start, count in counts.items():
        windows[start] = RangeWindow(held=(Stretch(at, count, CRC),))
        at += count
    return RangeReport(
        tier=tier, instance="m", at_ms=1, topic=topic, partition=0, from_offset=from_offset, to_offset=to_offset, windows=windows
    )


def complete(service: Service) -> None:
    service.report(producer({T0: 5, T0 + W: 3}), mirror(0, 100, {T0: 5, T0 + W: 3}))
    service.read("live", 0, 100, {T0: 5, T0 + W: 3})
    service.hear()
