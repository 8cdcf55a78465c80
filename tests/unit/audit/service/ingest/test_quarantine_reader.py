"""The reader of quarantine topics, over the bytes that a broker serves."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headrace.audit.model.checks.quarantine import OF_A_FILE, OF_AN_APPLICATION, number_of
from headrace.audit.model.tiers import QUARANTINE
from headrace.audit.service.ingest.quarantine_reader import QuarantineReader
from headrace.client.connection.control_plane import Listing
from headrace.client.fetch.fetched import FetchedPartition, TopicPartition
from headrace.client.fetch.wanted import Wanted
from headrace.wire.batch.crc32c import crc32c
from headrace.wire.batch.record_batch import BatchBuilder, place, read_header
from headrace.wire.quarantine_record import FileOrigin, LogOrigin, Origin, ProcessOrigin, QuarantineRecord
from tests.support.audit_parts import T0, Service, W, listing_of

ASIDE = TopicPartition("clicks.quarantine", 0)


class OneLog:
    """A cluster with one quarantine topic, whose log is served at once."""

    def __init__(self, values: list[bytes]) -> None:
        builder = BatchBuilder()
        for at, value in enumerate(values):
            builder.append(T0 + at, None, value)
        raw = bytearray(builder.build())
        place(memoryview(raw), 0)
        self.header, self.raw = read_header(raw), memoryview(raw)
        self.start = 0
        self.turns = 1
        self.names = ["clicks", "clicks.quarantine"]

    def listing(self) -> Listing:
        return listing_of(self.names)

    def log_offsets(self, cluster: object, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        assert set(wanted) <= {ASIDE}
        return dict.fromkeys(wanted, self.start)

    def fetch(self, wanted: Mapping[TopicPartition, int] | Wanted) -> list[FetchedPartition]:
        offsets = wanted.offsets if isinstance(wanted, Wanted) else wanted
        end = self.header.next_offset
        return [
            FetchedPartition(
                topic=name.topic, partition=0, requested_offset=at, high_watermark=end, log_start_offset=0,
                batches=[(self.header, self.raw)] if at < end else [],
            )
            for name, at in offsets.items()
        ]  # fmt: skip


def record(origin: Origin, start: int = T0) -> bytes:
    return QuarantineRecord(
        topic="clicks", stage="load", code="not_framed", reason="it has no frame", origin=origin, window_start_ms=start,
        window_from="record", at_ms=1, payload=b"x",
    ).to_json()  # fmt: skip


VALUES = [
    record(LogOrigin(cluster="offline", topic="clicks", partition=3, offset=40)),
    record(LogOrigin(cluster="live", topic="clicks", partition=3, offset=50, to_offset=52), T0 + W),
    b"of somebody who writes anything there",
    record(ProcessOrigin(instance="host/app/1", sequence=9)),
    record(FileOrigin(file="access.log", line=12)),
]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> OneLog:
    made = OneLog(VALUES)
    for module in ("reader", "log_scan", "quarantine_reader"):
        monkeypatch.setattr(f"headrace.audit.service.ingest.{module}.log_offsets", made.log_offsets)
    return made


@pytest.fixture
def reader(service: Service, log: OneLog) -> QuarantineReader:
    made = QuarantineReader("127.0.0.1:9", service.ledger, service.clock)
    made._cluster = made._fetcher = made.scan._cluster = made.scan._fetcher = log  # type: ignore[assignment]
    return made


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "books.sqlite")
    yield made
    made.database.close()


def held(service: Service) -> dict[int, list[tuple[int, ...]]]:
    return service.ledger.books.look(
        "clicks", lambda book: {start: list(book.windows[start].entry(QUARANTINE, 0).held) for start in sorted(book.windows)}
    ) or {}  # fmt: skip


def test_records_are_noted_by_origin_in_their_windows_and_what_is_none_is_passed_over(
    service: Service, reader: QuarantineReader, log: OneLog
) -> None:
    reader._discover()
    assert reader._read()
    first = log.header.base_offset
    expected = [
        (first, 1, crc32c(VALUES[0]), 2 * 3 + 1, 1, 40),
        (first + 1, 1, crc32c(VALUES[1]), 2 * 3, 2, 50),
        (first + 3, 1, crc32c(VALUES[3]), OF_AN_APPLICATION, number_of("host/app/1"), 9),
        (first + 4, 1, crc32c(VALUES[4]), OF_A_FILE, number_of(" access.log"), 12),
    ]
    assert held(service) == {T0: [expected[0], *expected[2:]], T0 + W: [expected[1]]}
    assert service.ledger.logs.positions(QUARANTINE)[1] == {TopicPartition("clicks", 0): log.header.next_offset}
    assert service.ledger.books.topics() == ["clicks"]


def test_reading_goes_on_where_it_was_after_a_restart_and_a_scan_finds_other_bytes(
    service: Service, reader: QuarantineReader, log: OneLog
) -> None:
    reader._discover()
    reader._read()
    service.restart()
    reader.__init__("127.0.0.1:9", service.ledger, service.clock)  # type: ignore[misc]
    other = OneLog([record(LogOrigin(cluster="offline", topic="clicks", partition=3, offset=41)), *VALUES[1:]])
    reader._cluster = reader._fetcher = reader.scan._cluster = reader.scan._fetcher = other  # type: ignore[assignment]
    reader._discover()
    reader._read()
    assert len(held(service)[T0]) == 3, "nothing twice"
    reader.scan.ask("a test")
    while not reader.scan.rounds:
        reader.scan.go_on(reader._known)
    assert held(service)[T0][0][5] == 41


def test_where_a_quarantine_log_begins_and_whether_it_exists_is_noted(
    service: Service, reader: QuarantineReader, log: OneLog
) -> None:
    reader._discover()
    reader._read()
    log.start = log.header.next_offset
    service.clock.advance(service.settings.discover_ms + 1)
    reader._discover()
    facts = service.ledger.topic_facts("clicks")
    assert facts.logs[QUARANTINE][0].expired_below == log.start
    log.names = ["clicks"]
    service.clock.advance(service.settings.discover_ms + 1)
    reader._discover()
    assert service.ledger.topic_facts("clicks").quarantine_gone_ms is not None
