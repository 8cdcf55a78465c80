"""`capture_events`: loggers validate and encode as usual, keep their events in order, and reach for no network."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.sdk import EventLogger, EventRefused, LoggerClosed, event_schema
from headrace.sdk.testing import CaptureRunning, capture_events
from tests.support.scripted_broker import ScriptedBroker
from tests.unit.sdk.logged import Make, events_of, reports_of

SCHEMA = event_schema("Click", [{"name": "page", "type": "string"}])
NOWHERE = {"bootstrap": "127.0.0.1:1", "registry_url": "http://127.0.0.1:1", "application": "shop", "server_name": "web-1"}
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


@dataclass
class Click:
    page: str


def _logger(topic: str = "clicks", described: Any = SCHEMA, **changes: Any) -> EventLogger:
    return EventLogger(topic, described, **{**NOWHERE, **changes})


def test_what_a_logger_takes_is_kept_as_a_reader_gets_it() -> None:
    with capture_events() as captured, _logger() as clicks, _logger("orders", Click) as orders:
        assert clicks.is_announced
        assert clicks.log({"page": "/", "event_time": NOON}, key=b"ann")
        assert orders.log(Click("/order"))
        clicks.flush()
    assert captured.topics == ["clicks", "orders"]
    assert captured.events("clicks") == [{"page": "/", "server": "web-1", "event_time": NOON}]
    assert [event["page"] for event in captured.events("orders")] == ["/order"]
    assert [(one.key, one.timestamp_ms) for one in captured.records("clicks")] == [(b"ann", int(NOON.timestamp() * 1000))]
    assert captured.events("nothing") == []


def test_validation_is_as_strict_as_ever() -> None:
    with capture_events() as captured:
        clicks, strict = _logger(), _logger(on_bad_event="raise")
        assert not clicks.log({"page": 7})
        with pytest.raises(EventRefused):
            strict.log({"page": 7})
    assert [record.reason for record in captured.quarantined("clicks")] == ["field 'page' is 7 of type int, expected string"]
    assert captured.dropped("clicks") == {"refused_by_schema": 1}
    assert captured.events("clicks") == []


def test_a_capture_is_bounded_and_what_is_over_is_dropped_by_name() -> None:
    with capture_events(most_events=2) as captured, _logger() as clicks:
        assert [clicks.log({"page": str(number)}) for number in range(3)] == [True, True, False]
        assert not clicks.log({"page": 7})
        ledger = clicks.ledger()
        captured.clear()
        assert clicks.log({"page": "again"})
    assert (ledger.taken, ledger.quarantined, ledger.dropped) == (2, 0, {"dropped_buffer_full": 2})
    assert [event["page"] for event in captured.events("clicks")] == ["again"]
    assert captured.dropped("clicks") == {}


def test_a_logger_that_was_open_before_sends_nothing_meanwhile_and_goes_on_afterwards(make: Make, broker: ScriptedBroker) -> None:
    logger = make()
    logger.log({"page": "before"})
    with capture_events() as captured:
        logger.log({"page": "inside"})
    logger.log({"page": "after"})
    logger.close()
    assert [event["page"] for event in captured.events("clicks")] == ["inside"]
    assert sorted(event["page"] for _, event in events_of(broker)) == ["after", "before"]


def test_a_logger_of_the_block_is_closed_at_its_end() -> None:
    with capture_events() as captured:
        clicks = _logger()
    with pytest.raises(LoggerClosed, match=r"its capture_events\(\) has ended"):
        clicks.log({"page": "/"})
    clicks.close()
    assert captured.events("clicks") == []


def test_one_capture_at_a_time_and_a_failure_ends_it() -> None:
    with capture_events(), pytest.raises(CaptureRunning), capture_events():
        pass
    with pytest.raises(ZeroDivisionError), capture_events():
        _ = 1 // 0
    with capture_events():
        pass


def test_a_logger_that_is_closed_inside_is_closed_for_good(make: Make, broker: ScriptedBroker) -> None:
    logger = make()
    with capture_events():
        logger.close()
    assert reports_of(broker)[-1].state == "closed"
    with pytest.raises(LoggerClosed):
        logger.log({"page": "/"})


def test_threads_may_log_at_once() -> None:
    with capture_events() as captured, _logger() as clicks:
        threads = [threading.Thread(target=lambda: [clicks.log({"page": "/"}) for _ in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert clicks.ledger().taken == 800
    assert len(captured.events("clicks")) == 800
