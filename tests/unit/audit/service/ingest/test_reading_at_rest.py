"""What a reader does while nobody writes: it costs the same however many partitions there are, and still knows their ends."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headrace.audit.service.ingest.reader import LogReader
from headrace.client.errors import LeaderUnknown
from headrace.client.fetch.fetched import FetchedPartition, TopicPartition
from headrace.client.fetch.wanted import Wanted
from tests.support.audit_parts import Service, listing_of
from tests.support.counted_steps import steps

from ...batches import batch

CLICKS = TopicPartition("clicks", 0)


class OfManyLogs:
    """Logs of a batch each, as a fetcher with sessions gives them: only those that have something."""

    def __init__(self, count: int) -> None:
        self.header, self.raw = batch([1, 2], position=0, producer_id=7)
        self.end = self.header.next_offset
        self.listed = listing_of([f"topic-{number}" for number in range(count)])
        self.turns = 1
        self.failing: set[TopicPartition] = set()
        self.unserved: set[TopicPartition] = set()
        """Of which an answer to many has no room."""
        self.asked: list[int] = []
        """Of how many partitions each fetch was."""

    def listing(self) -> object:
        return self.listed

    def log_offsets(self, cluster: object, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return dict.fromkeys(wanted, 0)

    def fetch(self, wanted: Mapping[TopicPartition, int] | Wanted) -> list[FetchedPartition]:
        offsets = wanted.take_changes() if isinstance(wanted, Wanted) else wanted
        at = wanted.offsets if isinstance(wanted, Wanted) else wanted
        self.asked.append(len(at))
        wider = {*offsets, *self.failing} & at.keys()
        return [self._of(name, at[name], is_one_of_many=len(at) > 1) for name in sorted(wider) if self._has_news(name, at[name])]

    def _has_news(self, name: TopicPartition, at: int) -> bool:
        return at < self.end or name in self.failing

    def _of(self, name: TopicPartition, at: int, *, is_one_of_many: bool) -> FetchedPartition:
        if name in self.failing:
            error = LeaderUnknown(*name, "moves")
            return FetchedPartition(
                topic=name.topic, partition=0, requested_offset=at, high_watermark=-1, log_start_offset=-1, error=error
            )
        fits = name not in self.unserved or not is_one_of_many
        return FetchedPartition(
            topic=name.topic, partition=0, requested_offset=at, high_watermark=self.end, log_start_offset=0,
            batches=[(self.header, self.raw)] if fits else [],
        )  # fmt: skip


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "books.sqlite")
    yield made
    made.database.close()


def reader_of(service: Service, logs: OfManyLogs, monkeypatch: pytest.MonkeyPatch) -> LogReader:
    made = LogReader("offline", "127.0.0.1:9", service.ledger, service.clock)
    made._cluster.close()
    for module in ("reader", "log_scan"):
        monkeypatch.setattr(f"headrace.audit.service.ingest.{module}.log_offsets", logs.log_offsets)
    made._cluster = made._fetcher = made.scan._cluster = made.scan._fetcher = logs  # type: ignore[assignment]
    made._discover()
    for _ in range(3):
        made._read()
    return made


def caught_up(service: Service, topic: str) -> int | None:
    service.clock.advance(1)
    return service.ledger.topic_facts(topic).logs["offline"][0].caught_up_ms


@pytest.mark.parametrize("turn", ["_read", "_discover"])
def test_a_turn_at_rest_costs_the_same_however_many_partitions_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: str
) -> None:
    cost = []
    for count in (50, 100):
        service = Service(tmp_path / f"{count}.sqlite")
        reader = reader_of(service, OfManyLogs(count), monkeypatch)
        service.clock.advance(service.settings.discover_ms + 1)
        cost.append(steps(getattr(reader, turn)))
        service.database.close()
    assert cost[0] == cost[1]


def test_all_logs_without_news_are_known_to_be_at_their_ends_as_of_the_last_fetch(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = reader_of(service, OfManyLogs(3), monkeypatch)
    for _ in range(3):
        service.clock.advance(1_000)
        reader._read()
        at_ms = service.clock.now_ms()
        assert [caught_up(service, f"topic-{number}") for number in range(3)] == [at_ms] * 3


def test_a_log_that_cannot_be_read_stays_known_as_of_when_it_could_and_is_read_again_once_it_can(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = OfManyLogs(2)
    reader = reader_of(service, logs, monkeypatch)
    known_ms = service.clock.now_ms()
    logs.failing = {TopicPartition("topic-0", 0)}
    for _ in range(2):
        service.clock.advance(1_000)
        reader._read()
    failed_ms = service.clock.now_ms()
    assert (caught_up(service, "topic-0"), caught_up(service, "topic-1")) == (known_ms, failed_ms)
    logs.failing = set()
    service.clock.advance(1_000)
    reader._read()
    assert caught_up(service, "topic-0") == service.clock.now_ms() - 1
    asked = len(logs.asked)
    reader.scan.go_on(reader._known)
    assert logs.asked[asked:] == [1], "it is read again: another log may answer under its name"


def test_a_topic_that_is_gone_is_no_longer_known_to_be_at_its_end(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = OfManyLogs(2)
    reader = reader_of(service, logs, monkeypatch)
    known_ms = service.clock.now_ms()
    logs.listed = listing_of(["topic-1"])
    service.clock.advance(service.settings.discover_ms + 1)
    reader._discover()
    reader._read()
    assert caught_up(service, "topic-0") == known_ms
    assert caught_up(service, "topic-1") == service.clock.now_ms() - 2


def test_of_more_partitions_than_one_fetch_takes_the_oldest_turn_tells_the_ends(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = OfManyLogs(2)
    reader = reader_of(service, logs, monkeypatch)
    logs.turns = 2
    service.clock.advance(1_000)
    reader._read()
    older_ms = service.clock.now_ms()
    service.clock.advance(1_000)
    reader._read()
    assert caught_up(service, "topic-0") == older_ms


def test_a_scan_reads_many_small_logs_in_one_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetches = []
    for count in (100, 200, 1_000):
        service = Service(tmp_path / f"{count}.sqlite")
        logs = OfManyLogs(count)
        reader = reader_of(service, logs, monkeypatch)
        logs.asked.clear()
        reader.scan.ask("a test")
        while not reader.scan.rounds:
            reader.scan.go_on(reader._known)
        fetches.append(logs.asked)
        service.database.close()
    assert fetches == [[100], [200], [500, 500]]


def test_logs_that_did_not_fit_into_the_answer_are_asked_for_again_and_are_sound(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = OfManyLogs(5)
    reader = reader_of(service, logs, monkeypatch)
    logs.unserved = {TopicPartition(f"topic-{number}", 0) for number in (0, 1, 3, 4)}
    logs.asked.clear()
    reader.scan.ask("a test")
    while not reader.scan.rounds:
        reader.scan.go_on(reader._known)
    assert sum(logs.asked) < 20
    assert service.ledger.books.ask(lambda notes: notes.unreadable(None)) == []
