"""The reader of a log, over answers that a fetcher might give."""

from collections.abc import Mapping

import pytest

from headrace.audit.service.ingest.reader import LogReader
from headrace.client.errors import LeaderUnknown, OffsetOutOfRange
from headrace.client.fetch.fetched import CorruptRange, FetchedPartition, TopicPartition

from ...batches import batch
from ...service_parts import Service

W = 600_000
CLICKS = TopicPartition("clicks", 0)


class Answers:
    """Gives the fetched partitions it was handed, one per fetch, then the log's end."""

    def __init__(self) -> None:
        self.next: list[FetchedPartition | Exception] = []
        self.asked: list[Mapping[TopicPartition, int]] = []
        self.start = 0

    def log_offsets(self, cluster: object, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return dict.fromkeys(wanted, self.start)

    def fetch(self, wanted: Mapping[TopicPartition, int]) -> list[FetchedPartition]:
        self.asked.append(dict(wanted))
        answer = self.next.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [answer]


def fetched(offset: int, *timestamps: list[int], end: int | None = None, at: int | None = None) -> FetchedPartition:
    batches = []
    base = offset if at is None else at
    for one in timestamps:
        header, raw = batch(one, position=base, producer_id=7)
        batches.append((header, raw))
        base = header.next_offset
    return FetchedPartition(
        topic="clicks",
        partition=0,
        requested_offset=offset,
        high_watermark=base if end is None else end,
        log_start_offset=0,
        batches=batches,
    )


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def reader(service: Service, answers: Answers, monkeypatch: pytest.MonkeyPatch) -> LogReader:
    made = LogReader("offline", "127.0.0.1:9", service.ledger, service.clock)
    monkeypatch.setattr("headrace.audit.service.ingest.reader.log_offsets", answers.log_offsets)
    made._fetcher = answers  # type: ignore[assignment]
    made._known = {CLICKS}
    return made


def counts(service: Service) -> dict[int, int | None]:
    return {one.window_start_ms: one.verdict.tiers.get("offline") for one in service.judge.windows("clicks")}


def position(service: Service) -> int:
    return service.ledger.positions("offline")[1][CLICKS]


def test_reading_begins_at_the_log_s_start_and_goes_on_behind_what_was_read(
    service: Service, reader: LogReader, answers: Answers
) -> None:
    first = fetched(0, [1, 2], [W])
    second = fetched(first.next_offset, [3])
    answers.next = [first, second, fetched(second.next_offset)]
    for _ in range(3):
        reader._read()
    assert [asked[CLICKS] for asked in answers.asked] == [0, first.next_offset, second.next_offset]
    assert counts(service) == {0: 3, W: 1}


def test_records_before_the_place_where_reading_begins_are_not_counted(
    service: Service, reader: LogReader, answers: Answers
) -> None:
    third = batch([1, 2, 3, 4])[0].base_offset + 2
    answers.start = third
    answers.next = [fetched(third, [1, 2, 3, 4], at=0)]
    reader._read()
    assert counts(service) == {0: 2}


def test_a_log_is_caught_up_only_when_all_up_to_the_end_it_told_is_read(
    service: Service, reader: LogReader, answers: Answers
) -> None:
    behind = fetched(0, [1], end=5_000)
    answers.next = [behind, fetched(behind.next_offset, [2])]
    reader._read()
    with service.ledger.reading() as books:
        log = books.topics["clicks"].logs["offline"][0]
        assert log.caught_up_ms is None
        reader._read()
        assert log.caught_up_ms == service.clock.now_ms()


def test_corrupt_and_unserved_stretches_are_noted_and_not_counted(service: Service, reader: LogReader, answers: Answers) -> None:
    whole = fetched(500, [1, 2], at=500)
    bad = CorruptRange(from_offset=0, to_offset=500, reason="CRC does not hold")
    first = FetchedPartition(
        topic="clicks",
        partition=0,
        requested_offset=0,
        high_watermark=9_000,
        log_start_offset=0,
        batches=whole.batches,
        corrupt=[bad],
    )
    answers.next = [first, fetched(first.next_offset, [W], at=first.next_offset + 300)]
    reader._read()
    reader._read()
    assert counts(service) == {0: 2, W: 1}
    noted = service.ledger.ask(lambda notes: notes.unreadable("clicks"))
    assert [(one["from_offset"], one["to_offset"]) for one in noted] == [(0, 500), (first.next_offset, first.next_offset + 300)]
    assert [one["reason"] for one in noted] == ["CRC does not hold", "the broker serves nothing of these offsets"]


def test_what_expired_before_it_was_counted_is_noted_and_passed(service: Service, reader: LogReader, answers: Answers) -> None:
    first = fetched(0, [1])
    answers.next = [first]
    reader._read()
    reader._out_of_range(OffsetOutOfRange("clicks", 0, first.next_offset, 7_000))
    assert position(service) == 7_000
    (noted,) = service.ledger.ask(lambda notes: notes.unreadable("clicks"))
    assert "expired" in noted["reason"]
    assert counts(service) == {0: 1}


def test_a_log_that_shrank_is_counted_anew(service: Service, reader: LogReader, answers: Answers) -> None:
    first = fetched(0, [1, 2])
    answers.next = [first, fetched(0, [5])]
    reader._read()
    reader._out_of_range(OffsetOutOfRange("clicks", 0, first.next_offset, 0))
    reader._read()
    assert counts(service) == {0: 1}


def test_a_partition_that_fails_for_now_is_read_later(service: Service, reader: LogReader, answers: Answers) -> None:
    failing = FetchedPartition(
        topic="clicks",
        partition=0,
        requested_offset=0,
        high_watermark=-1,
        log_start_offset=-1,
        error=LeaderUnknown("clicks", 0, "moves"),
    )
    answers.next = [failing, fetched(0, [1])]
    reader._read()
    assert service.ledger.positions("offline")[1] == {}
    reader._read()
    assert counts(service) == {0: 1}
