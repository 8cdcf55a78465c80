"""One topic's history through the real ledger and judge: every tier tells every window, old windows are added up by day.

All times lie before now, as a service would have seen them that ran all the while.
"""

from collections.abc import Iterator

from headrace.audit.model.codec import encode
from headrace.audit.model.messages import ProducerReport, ProducerWindow, RangeReport, RangeWindow, Report, SentRanges, Stretch
from headrace.audit.model.tier_reports import LiveBatch, PartitionRead
from headrace.audit.model.tiers import LIVE, OFFLINE
from headrace.audit.service.judge import Judge
from headrace.audit.service.settings import AuditSettings, TopicTiers
from headrace.audit.service.store.database import Database
from headrace.audit.service.store.ledger import Ledger, Message
from headrace.audit.service.store.log_books import LogRead
from headrace.client.fetch.fetched import TopicPartition
from headrace.runtime.clock import ManualClock

HOUR_MS = 3_600_000
W = 600_000
BATCHES = 4
RECORDS = 25
READERS = ("mirror", "warehouse", "consumer:service")
SETTINGS = AuditSettings(
    default_topic=TopicTiers(required=("producer", "live", "mirror", "offline", "warehouse", "consumer:service"))
)
LOSES_IN = 3
"""In the topic that loses, one batch is missing at the mirror in every window whose number is this, modulo 50."""


def tell(database: Database, topic: str, number: int, *, first_hour_ms: int, hours: int, loses: bool, groups: int = 0) -> None:
    """Fill the database with `hours` of one topic, told by run number `number`; windows older than three days are days then.

    So many `groups` report beside the verdict.
    """
    clock = ManualClock(first_hour_ms)
    ledger = Ledger(database, SETTINGS, clock)
    ledger.books.open()
    judge = Judge(ledger, clock)
    judge.open()
    ledger.logs.see_topic_ids(LIVE, {topic: f"id-{topic}"}, first_hour_ms)
    for hour in range(hours):
        clock.advance(HOUR_MS)
        tell_hour(ledger, judge, clock, topic, number, hour, first_hour_ms + hour * HOUR_MS, loses=loses, groups=groups)
        judge.roll_up()


def tell_hour(
    ledger: Ledger,
    judge: Judge,
    clock: ManualClock,
    topic: str,
    number: int,
    hour: int,
    hour_ms: int,
    *,
    loses: bool,
    groups: int = 0,
) -> None:
    """Let every tier tell the topic's hour number `hour`, which begins at `hour_ms`, and judge it."""
    position = ledger.collector_positions().get(0, 0)
    batches = list(_batches(hour_ms, hour))
    for report in _reports(topic, number, hour, batches, loses=loses, groups=groups):
        ledger.take_reports([Message(0, position, encode(report), None)], {}, {0: position + 1})
        position += 1
    generation, _ = ledger.logs.positions(LIVE)
    for tier in (LIVE, OFFLINE):
        clock.advance(1)
        read = LogRead(found=_read(tier, topic, batches))
        assert ledger.logs.take_reads(tier, generation, [read], {TopicPartition(topic, 0): clock.now_ms()})
    clock.advance(1)
    ledger.heard_all(clock.now_ms(), {})
    judge.bring_up_to_date(topic)
    clock.advance(-3)


def _batches(hour_ms: int, hour: int) -> Iterator[tuple[int, int, int]]:
    """Yield (window start, first record, CRC)."""
    first = hour * (HOUR_MS // W) * BATCHES * RECORDS
    for window in range(HOUR_MS // W):
        for _ in range(BATCHES):
            yield hour_ms + window * W, first, (first * 2_654_435_761) % (1 << 32)
            first += RECORDS


def _reports(
    topic: str, number: int, hour: int, batches: list[tuple[int, int, int]], *, loses: bool, groups: int
) -> Iterator[Report]:
    starts = sorted({start for start, _, _ in batches})
    stretches = {start: tuple(Stretch(first, RECORDS, crc) for mine, first, crc in batches if mine == start) for start in starts}
    yield ProducerReport(
        instance=f"host-{number}/application/{number}",
        epoch=1,
        sequence=hour,
        at_ms=starts[-1] + W,
        state="open",
        producer_ids=(number,),
        topics=(topic,),
        moved_past_ms=starts[-1] + W,
        windows=tuple(
            ProducerWindow(
                topic=topic,
                window_start_ms=start,
                sent=(SentRanges(partition=0, producer_id=number, producer_epoch=0, acknowledged=stretches[start]),),
            )
            for start in starts
        ),
    )
    for tier in (*READERS, *(f"consumer:group-{group:02}" for group in range(groups))):
        told = {
            start: RangeWindow(held=held[1:] if loses and tier == "mirror" and (start // W) % 50 == LOSES_IN else held)
            for start, held in stretches.items()
        }
        yield RangeReport(
            tier=tier, instance=tier, at_ms=1, topic=topic, partition=0,
            from_offset=batches[0][1], to_offset=batches[-1][1] + RECORDS, windows=told,
        )  # fmt: skip


def _read(tier: str, topic: str, batches: list[tuple[int, int, int]]) -> PartitionRead:
    windows: dict[int, list[LiveBatch | Stretch]] = {}
    for start, first, crc in batches:
        found = (
            LiveBatch(first, RECORDS, crc, int(topic.rpartition("-")[2]), 0, first)
            if tier == LIVE
            else Stretch(first, RECORDS, crc)
        )
        windows.setdefault(start, []).append(found)
    return PartitionRead(topic=topic, partition=0, from_offset=batches[0][1], to_offset=batches[-1][1] + RECORDS, windows=windows)
