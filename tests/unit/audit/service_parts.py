"""The audit service's parts behind one file, without a cluster, and reports for them."""

from pathlib import Path

from headrace.audit.model.codec import encode
from headrace.audit.model.messages import ProducerReport, ProducerWindow, RangeReport, RangeWindow, Report
from headrace.audit.model.tier_reports import PartitionRead, ReadWindow
from headrace.audit.service.judge import Judge
from headrace.audit.service.settings import AuditSettings, TopicTiers
from headrace.audit.service.store.database import Database
from headrace.audit.service.store.ledger import Ledger
from headrace.client.fetch.fetched import TopicPartition
from headrace.runtime.clock import ManualClock

W = 600_000
T0 = 1_431_849_600_000  # 2015-05-17 08:00 UTC
START_MS = 1_800_000_000_000
SHORT = AuditSettings(default_topic=TopicTiers(required=("producer", "live", "mirror")))


class Service:
    """The parts behind one file; `restart` is a kill: nothing is closed in order."""

    def __init__(self, path: Path, settings: AuditSettings = SHORT) -> None:
        self.path = path
        self.settings = settings
        self.clock = ManualClock(START_MS)
        self.begin()

    def begin(self) -> None:
        self.database = Database(self.path)
        self.database.open()
        self.ledger = Ledger(self.database, self.settings, self.clock)
        self.ledger.open()
        self.judge = Judge(self.ledger, self.clock)
        self.judge.open()

    def restart(self) -> None:
        self.database.close()
        self.begin()

    def report(self, *reports: Report | bytes, offset: int = 0) -> None:
        messages = [(0, offset + at, one if isinstance(one, bytes) else encode(one)) for at, one in enumerate(reports)]
        self.ledger.take_reports(messages, {0: offset + len(messages)})

    def read(self, tier: str, from_offset: int, to_offset: int, counts: dict[int, int], topic: str = "clicks") -> bool:
        generation, _ = self.ledger.positions(tier)
        windows = {
            start: ReadWindow(first_offset=from_offset, end_offset=to_offset, by_producer={7: count})
            for start, count in counts.items()
        }
        read = PartitionRead(topic=topic, partition=0, from_offset=from_offset, to_offset=to_offset, windows=windows)
        self.clock.advance(1)
        asked_ms = self.clock.now_ms()
        return self.ledger.take_reads(tier, generation, [read], [], {TopicPartition(topic, 0): asked_ms})

    def hear(self) -> None:
        self.clock.advance(1)
        self.ledger.heard_all(self.clock.now_ms())

    def verdicts(self, topic: str = "clicks") -> dict[int, str]:
        return {one.window_start_ms: one.verdict.kind.value for one in self.judge.windows(topic)}


def producer(counts: dict[int, int], *, closed: bool = True, sequence: int = 0) -> ProducerReport:
    return ProducerReport(
        instance="host/app/1",
        epoch=1,
        sequence=sequence,
        at_ms=1,
        state="closed" if closed else "open",
        producer_ids=(7,),
        topics=("clicks",),
        windows=tuple(
            ProducerWindow(topic="clicks", window_start_ms=start, counts={0: count}) for start, count in counts.items()
        ),
    )


def mirror(from_offset: int, to_offset: int, counts: dict[int, int], part: int = 0, parts: int = 1) -> RangeReport:
    return RangeReport(
        tier="mirror",
        instance="m",
        at_ms=1,
        topic="clicks",
        partition=0,
        from_offset=from_offset,
        to_offset=to_offset,
        windows={start: RangeWindow(count=count) for start, count in counts.items()},
        part=part,
        parts=parts,
    )


def complete(service: Service) -> None:
    service.report(producer({T0: 5, T0 + W: 3}), mirror(0, 100, {T0: 5, T0 + W: 3}))
    service.read("live", 0, 100, {T0: 5, T0 + W: 3})
    service.hear()
