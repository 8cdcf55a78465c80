"""Which records of a window lie in ranges that were repaired: counted beside the verdict, within bounds."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from headrace.audit.model.books import TopicBook
from headrace.audit.service import repairs as module
from headrace.audit.service.repairs import Repairs, RepairsAsking
from headrace.audit.service.web import report
from headrace.audit.service.web.endpoints import application
from headrace.runtime.clock import ManualClock
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control
from headrace.wire.messages.describe_damage import KEY, Kind, Response, Row, decode_request, encode_response
from tests.support.audit_parts import START_MS, T0, Service, W, complete
from tests.support.scripted_broker import API_VERSIONS, Fault, ScriptedBroker


def repaired(from_offset: int, to_offset: int, *, topic: str = "clicks", partition: int = 0, at_ms: int = START_MS) -> Row:
    return Row(Kind.REPAIRED, topic, partition, from_offset, to_offset, at_ms, 1)


def book() -> TopicBook:
    """Offsets 0 to 4 and 10 to 14 of live are of the first window, 20 to 29 of the second one."""
    made = TopicBook()
    made.window(T0).entry("live", 0).held.add([(0, 5, 1, 7, 0, 0), (10, 5, 1, 7, 0, 5)])
    made.window(T0 + W).entry("live", 0).held.add([(20, 10, 1, 7, 0, 10)])
    made.window(T0).entry("mirror", 0).held.add([(0, 5, 1)])
    return made


def counts(*rows: Row, tier: str = "live", since_ms: int = 0) -> dict[int, dict[str, int]]:
    repairs = Repairs()
    repairs.take(tier, rows)
    return repairs.of("clicks", book(), (T0, T0 + W, T0 + 9 * W), since_ms)


def test_records_whose_offsets_lie_in_a_repaired_range_are_counted_in_their_windows() -> None:
    assert counts(repaired(3, 22)) == {T0: {"live": 7}, T0 + W: {"live": 2}}
    assert counts(repaired(5, 10)) == {}
    assert counts(repaired(0, 100, partition=1)) == {}
    assert counts(repaired(0, 100, topic="views")) == {}


def test_a_record_that_two_replicas_repaired_is_counted_once() -> None:
    assert counts(repaired(0, 3), repaired(1, 5), repaired(0, 3)) == {T0: {"live": 5}}
    assert counts(repaired(0, 12), repaired(3, 11)) == {T0: {"live": 7}}


def test_a_repair_of_one_cluster_says_nothing_of_another_tiers_records() -> None:
    assert counts(repaired(0, 100), tier="offline") == {}


def test_only_repairs_are_counted_and_none_of_an_earlier_topic_of_the_name() -> None:
    assert counts(Row(Kind.DAMAGED, "clicks", 0, 0, 100, START_MS), Row(Kind.UNDECIDED, "clicks", 0, 0, 100, START_MS)) == {}
    assert counts(repaired(0, 3), since_ms=START_MS + 1) == {}


def test_what_is_known_stays_when_a_broker_forgets_it_and_the_oldest_is_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RANGES", 2)
    repairs = Repairs()
    assert repairs.take("live", [repaired(0, 1, at_ms=3), repaired(1, 2, at_ms=1)]) == 2
    assert repairs.take("live", [repaired(0, 1, at_ms=3)]) == 0
    assert repairs.of("clicks", book(), [T0]) == {T0: {"live": 2}}
    assert repairs.take("live", [repaired(10, 11, at_ms=2)]) == 1
    assert repairs.of("clicks", book(), [T0]) == {T0: {"live": 2}}
    assert repairs.of("clicks", book(), [T0], since_ms=3) == {T0: {"live": 1}}
    assert repairs.of("clicks", book(), [T0], since_ms=2) == {T0: {"live": 2}}


class DamageBroker(ScriptedBroker):
    """A broker of this platform (or, without its feature, another one) that answers DescribeDamage."""

    def __init__(self, response: Response, *, is_headrace: bool = True) -> None:
        super().__init__()
        self.response = response
        self.features = [control.BYTE_OFFSETS] if is_headrace else []

    def _carry_out(self, key: int, version: int, body: memoryview, fault: Fault) -> bytes:
        if key == KEY:
            assert decode_request(body) == 0
            return encode_response(self.response)
        return super()._carry_out(key, version, body, fault)


@contextmanager
def asking(broker: DamageBroker, repairs: Repairs, clock: ManualClock) -> Iterator[RepairsAsking]:
    made = RepairsAsking({"live": broker.address}, repairs, clock)
    try:
        yield made
    finally:
        made.stop()
        broker.close()


def asked_times(made: RepairsAsking, clock: ManualClock, broker: DamageBroker, *, for_ms: int) -> int:
    """Return how often the broker was asked while the clock moved on, second by second."""
    for _ in range(for_ms // 1_000):
        made.ask_once()
        clock.advance(1_000)
    return broker.count(KEY)


def test_brokers_are_asked_once_a_minute() -> None:
    clock, repairs, broker = ManualClock(START_MS), Repairs(), DamageBroker(Response(0, 1, START_MS, (repaired(0, 3),)))
    with asking(broker, repairs, clock) as made:
        assert asked_times(made, clock, broker, for_ms=180_000) == 3
    assert repairs.of("clicks", book(), [T0]) == {T0: {"live": 3}}


def test_brokers_that_refuse_are_asked_once_in_ten_minutes() -> None:
    clock, broker = ManualClock(START_MS), DamageBroker(Response(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    with asking(broker, Repairs(), clock) as made:
        assert asked_times(made, clock, broker, for_ms=1_200_000) == 2


def test_brokers_of_another_kind_are_never_asked_for_damage() -> None:
    clock, broker = ManualClock(START_MS), DamageBroker(Response(0), is_headrace=False)
    with asking(broker, Repairs(), clock) as made:
        assert asked_times(made, clock, broker, for_ms=180_000) == 0
        assert broker.count(API_VERSIONS) > 0


def test_brokers_that_are_away_stop_nothing_and_are_asked_again() -> None:
    clock, repairs, broker = ManualClock(START_MS), Repairs(), DamageBroker(Response(0, 1, START_MS, (repaired(0, 3),)))
    broker.fail(KEY, Fault(close_before=True), Fault(garbage=True))
    with asking(broker, repairs, clock) as made:
        assert asked_times(made, clock, broker, for_ms=60_000) == 1
        assert not repairs.is_known("clicks")
        assert asked_times(made, clock, broker, for_ms=120_000) == 3
        assert repairs.is_known("clicks")


def test_a_complete_window_stays_complete_and_says_how_many_were_repaired(service: Service) -> None:
    complete(service)
    service.judge.bring_up_to_date()
    site = service.site()
    http = TestClient(application(service.ledger, service.judge, service.clock, site))
    asked = {"topic": "clicks", "start": T0}
    before = http.get("/api/window", params=asked)
    assert "repaired" not in before.json()
    site.repairs.take("live", [repaired(0, 4)])
    (first, second) = http.get("/api/completeness", params={"topic": "clicks"}).json()
    assert first == before.json() | {"repaired": {"live": 4}}
    assert first["verdict"] == "COMPLETE"
    assert "repaired" not in second
    assert http.get("/api/window", params=asked, headers={"If-None-Match": before.headers["ETag"]}).json() == first
    assert http.get("/api/completeness", params={"topic": "clicks", "newest": 2}).json() == [first, second]
    (_, row) = http.get("/api/topic", params={"topic": "clicks"}).json()["windows"]
    assert row["repaired"] == {"live": 4}
    assert report.why_words(row).endswith("4 repaired in live")
    assert "repaired" not in report.why_words(second)


def test_a_topic_made_again_shows_no_repair_of_the_earlier_one(service: Service) -> None:
    service.ledger.logs.see_topic_ids("live", {"clicks": "a"}, service.clock.now_ms())
    site = service.site()
    site.repairs.take("live", [repaired(0, 4, at_ms=service.clock.now_ms())])
    service.clock.advance(1_000)
    service.ledger.logs.see_topic_ids("live", {"clicks": "b"}, service.clock.now_ms())
    complete(service)
    service.judge.bring_up_to_date()
    http = TestClient(application(service.ledger, service.judge, service.clock, site))
    assert all("repaired" not in one for one in http.get("/api/completeness", params={"topic": "clicks"}).json())
