"""The reader of a log, over answers that a fetcher might give."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from headrace.audit.service.ingest.reader import LogReader
from headrace.client.connection.control_plane import Listing
from headrace.client.errors import LeaderUnknown, OffsetOutOfRange
from headrace.client.fetch.fetched import CorruptRange, FetchedPartition, TopicPartition
from headrace.client.fetch.wanted import Wanted
from tests.support.audit_parts import Service, listing_of

from ...batches import batch

W = 600_000
CLICKS = TopicPartition("clicks", 0)


class Answers:
    """Gives the fetched partitions it was handed, one per fetch, then the log's end."""

    def __init__(self) -> None:
        self.next: list[FetchedPartition | Exception] = []
        self.asked: list[Mapping[TopicPartition, int]] = []
        self.start = 0
        self.turns = 1

    def log_offsets(self, cluster: object, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return dict.fromkeys(wanted, self.start)

    def fetch(self, wanted: Mapping[TopicPartition, int] | Wanted) -> list[FetchedPartition]:
        self.asked.append(dict(wanted.offsets if isinstance(wanted, Wanted) else wanted))
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
    monkeypatch.setattr("headrace.audit.service.ingest.log_scan.log_offsets", answers.log_offsets)
    made._fetcher = made.scan._fetcher = answers  # type: ignore[assignment]
    made._known = frozenset({CLICKS})
    return made


def counts(service: Service) -> dict[int, int | None]:
    return {one["window_start_ms"]: one["tiers"].get("offline") for one in service.windows()}


def position(service: Service) -> int:
    return service.ledger.logs.positions("offline")[1][CLICKS]


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
    assert service.ledger.topic_facts("clicks").logs["offline"][0].caught_up_ms is None
    reader._read()
    assert service.ledger.topic_facts("clicks").logs["offline"][0].caught_up_ms == service.clock.now_ms()


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
    skipped = service.ledger.topic_facts("clicks").logs["offline"][0].skipped
    assert [(one.from_offset, one.to_offset, one.reason) for one in skipped] == [
        (0, 500, "corrupt"),
        (first.next_offset, first.next_offset + 300, "corrupt"),
    ]
    noted = service.ledger.books.ask(lambda notes: notes.unreadable("clicks"))
    assert [(one["from_offset"], one["to_offset"]) for one in noted] == [(0, 500), (first.next_offset, first.next_offset + 300)]
    assert [one["reason"] for one in noted] == ["CRC does not hold", "the broker serves nothing of these offsets"]


def test_what_expired_before_it_was_counted_is_noted_and_passed(service: Service, reader: LogReader, answers: Answers) -> None:
    first = fetched(0, [1])
    answers.next = [first]
    reader._read()
    reader._out_of_range(OffsetOutOfRange("clicks", 0, first.next_offset, 7_000))
    assert position(service) == 7_000
    (noted,) = service.ledger.books.ask(lambda notes: notes.unreadable("clicks"))
    assert "expired" in noted["reason"]
    assert counts(service) == {0: 1}


def test_a_log_that_shrank_is_counted_anew(service: Service, reader: LogReader, answers: Answers) -> None:
    first = fetched(0, [1, 2])
    answers.next = [first, fetched(0, [5])]
    reader._read()
    reader._out_of_range(OffsetOutOfRange("clicks", 0, first.next_offset, 0))
    assert service.ledger.logs.positions("offline")[1] == {}
    reader._read()
    assert counts(service) == {0: 1}


def test_a_live_log_that_shrank_is_read_again_and_what_it_held_is_remembered(service: Service, answers: Answers) -> None:
    reader = LogReader("live", "127.0.0.1:1", service.ledger, service.clock)
    reader._fetcher = reader.scan._fetcher = answers  # type: ignore[assignment]
    reader._known = frozenset({CLICKS})
    reader._discover_at_ms = 1 << 60
    first = fetched(0, [1, 2])
    answers.next = [first]
    service.ledger.logs.take_reads("live", service.ledger.logs.positions("live")[0], [reader._batches.of(first)], {})
    reader._out_of_range(OffsetOutOfRange("clicks", 0, first.next_offset, 0))
    assert service.ledger.logs.positions("live")[1] == {CLICKS: 0}
    assert service.ledger.books.look("clicks", lambda book: book.windows[0].found["live"][0].altered.count) == 2
    reader._cluster.close()


SCAN_MS = 300_000


def scanned(service: Service, reader: LogReader, answers: Answers, *found: FetchedPartition) -> None:
    """One round of the scan, `scan_every_ms` later."""
    service.clock.advance(SCAN_MS)
    answers.next = list(found)
    rounds = reader.scan.rounds
    for _ in range(10):
        reader.scan.go_on(reader._known)
        if reader.scan.rounds > rounds:
            return
        service.clock.advance(100)
    raise AssertionError("the round did not end")


def test_damage_after_the_read_back_is_found_by_the_scan_and_put_on_its_tier(
    service: Service, reader: LogReader, answers: Answers
) -> None:
    """Fault: damage after the read-back was never seen by itself, or was put on the tier behind."""
    whole = fetched(0, [1, 2], [W])
    answers.next = [whole]
    reader._read()
    assert counts(service) == {0: 2, W: 1}
    scanned(service, reader, answers, whole)
    assert counts(service) == {0: 2, W: 1}
    first, second = whole.batches
    bad = CorruptRange(from_offset=0, to_offset=first[0].next_offset, reason="CRC does not hold")
    scanned(service, reader, answers, replace(whole, batches=[second], corrupt=[bad]))
    assert counts(service) == {W: 1}
    (noted,) = service.ledger.books.ask(lambda notes: notes.unreadable("clicks"))
    assert (noted["tier"], noted["reason"]) == ("offline", "CRC does not hold")
    scanned(service, reader, answers, whole)
    assert counts(service) == {0: 2, W: 1}


def test_a_batch_that_was_exchanged_for_another_is_found_by_the_scan(
    service: Service, reader: LogReader, answers: Answers
) -> None:
    whole = fetched(0, [1, 2], [W])
    answers.next = [whole]
    reader._read()
    other = fetched(0, [2, 3], [W])
    assert other.next_offset == whole.next_offset
    scanned(service, reader, answers, other)
    (row,) = service.ledger.books.book("clicks").windows[0].found["offline"][0].held
    assert row[2] == other.batches[0][0].crc != whole.batches[0][0].crc


def test_the_scan_keeps_what_expired_meanwhile(service: Service, reader: LogReader, answers: Answers) -> None:
    """Fault: after records expired, a recount turned COMPLETE into missing."""
    whole = fetched(0, [1, 2], [W])
    answers.next = [whole]
    reader._read()
    (header, _), second = whole.batches
    answers.start = header.next_offset
    scanned(service, reader, answers, replace(whole, requested_offset=answers.start, batches=[second]))
    assert counts(service) == {0: 2, W: 1}
    service.ledger.logs.recount("offline", "clicks", {0: answers.start})
    answers.next = [replace(whole, requested_offset=answers.start, batches=[second])]
    reader._read()
    assert counts(service) == {0: 2, W: 1}


def test_a_cluster_that_was_away_is_read_again_at_once(service: Service, reader: LogReader, answers: Answers) -> None:
    """Fault: a broker's restart, which looked at its log, triggered no recount."""
    whole = fetched(0, [1, 2], [W])
    answers.next = [whole]
    reader._read()
    reader._tell_recovered()
    second = whole.batches[1]
    answers.next = [replace(whole, batches=[second])]
    reader.scan.go_on(reader._known)
    assert counts(service) == {W: 1}
    assert answers.next == []


def test_a_log_whose_end_is_served_no_more_is_found_by_the_scan(service: Service, reader: LogReader, answers: Answers) -> None:
    whole = fetched(0, [1, 2], [W])
    answers.next = [whole]
    reader._read()
    first = replace(whole, batches=whole.batches[:1])
    nothing = fetched(first.next_offset, end=whole.next_offset)
    scanned(service, reader, answers, first, *[nothing] * 3)
    assert counts(service) == {0: 2}


def test_an_end_that_a_former_leader_does_not_know_is_asked_for_again(
    service: Service, reader: LogReader, answers: Answers
) -> None:
    """Fault: a broker that was cut off, and did not know yet that another one led, had the first records of the new leader called
    unreadable (round 77 of seed 101 of `make faults`)."""
    whole = fetched(0, [1, 2], [W])
    answers.next = [whole]
    reader._read()
    first = replace(whole, batches=whole.batches[:1], high_watermark=whole.batches[0][0].next_offset)
    does_not_know = fetched(first.next_offset, end=first.next_offset)
    scanned(service, reader, answers, first, *[does_not_know] * 5, whole)
    assert counts(service) == {0: 2, W: 1}
    assert not service.ledger.books.ask(lambda notes: notes.unreadable("clicks"))


def test_the_scan_reads_no_more_than_its_rate(service: Service, reader: LogReader, answers: Answers) -> None:
    whole = fetched(0, [1, 2], [W])
    answers.next = [whole]
    reader._read()
    service.clock.advance(SCAN_MS - 10)
    asked = len(answers.asked)
    reader.scan.go_on(reader._known)
    assert len(answers.asked) == asked


def test_a_topic_made_anew_with_a_longer_log_is_counted_anew(service: Service, answers: Answers, reader: LogReader) -> None:
    """Fault: two logs were mixed when a topic was created again under its name."""
    service.ledger.logs.see_topic_ids("offline", {"clicks": "a"}, 1)
    first = fetched(0, [1, 2])
    answers.next = [first, fetched(0, [5], [6], [7])]
    reader._read()
    service.ledger.logs.see_topic_ids("offline", {"clicks": "b"}, 2)
    reader._read()
    assert counts(service) == {0: 3}


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
    assert service.ledger.logs.positions("offline")[1] == {}
    reader._read()
    assert counts(service) == {0: 1}


@pytest.mark.parametrize(("topics", "took_ms", "pause_ms"), [(0, 600, 2_000), (10, 600, 2_000), (10_000, 600, 12_000)])
def test_a_look_for_topics_that_was_slow_to_connect_is_followed_by_another_one_soon(
    service: Service, reader: LogReader, monkeypatch: pytest.MonkeyPatch, topics: int, took_ms: int, pause_ms: int
) -> None:
    """Names a fault: a service that took 600 ms to connect saw a new topic's live log 12 s later; its windows were UNKNOWN with
    `live` null meanwhile.
    """

    def slow() -> Listing:
        service.clock.advance(took_ms)
        return listing_of([f"topic-{number}" for number in range(topics)])

    monkeypatch.setattr(reader._cluster, "listing", slow)
    began_ms = service.clock.monotonic_ms()
    reader._discover()
    assert reader._discover_at_ms == began_ms + pause_ms
