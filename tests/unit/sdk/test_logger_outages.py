"""The logger while the cluster or the registry is away."""

import re
from pathlib import Path

import pytest

from headrace.client.errors import FlushTimedOut
from headrace.schema_registry.client import IncompatibleSchema
from tests.support.processes import eventually, free_port
from tests.support.scripted_broker import ScriptedBroker
from tests.unit.sdk.logged import HangsUp, Make, books_of, events_of, reports_of
from tests.unit.sdk.scripted_registry import ScriptedRegistry


@pytest.mark.situation(
    "schemas and quarantine",
    "the registry is away while an application logs",
    shown="nothing once the schema's id is on disk; before that, events wait",
    when="when it is back",
    do="start the registry",
)
def test_events_go_on_while_the_registry_is_away_once_the_id_is_on_disk(
    broker: ScriptedBroker, registry: ScriptedRegistry, make: Make, tmp_path: Path
) -> None:
    make(schema_cache=tmp_path).close()
    registry.close()
    logger = make(schema_cache=tmp_path)
    assert logger.log({"page": "/"}, event_time_ms=1)
    logger.close()
    assert events_of(broker) == [(42, {"event_time": 1, "server": "web-1", "page": "/"})]


@pytest.mark.situation("schemas and quarantine", "the registry is away while an application logs")
def test_events_wait_for_a_registry_that_was_never_asked_before(broker: ScriptedBroker, make: Make) -> None:
    port = free_port()
    logger = make(registry_url=f"http://127.0.0.1:{port}", start_timeout_ms=50)
    for at in range(5):
        assert logger.log({"page": "/"}, event_time_ms=at)
    with pytest.raises(FlushTimedOut):
        logger.flush(timeout_ms=50)
    registry = ScriptedRegistry(port)
    logger.flush()
    logger.log({"page": "/"}, event_time_ms=5)
    logger.close()
    registry.close()
    assert [event["event_time"] for _, event in events_of(broker)] == [0, 1, 2, 3, 4, 5]
    assert books_of(broker) == {0: (6, {})}


def test_the_wait_for_the_registry_is_bounded_and_counted(broker: ScriptedBroker, make: Make) -> None:
    logger = make(registry_url=f"http://127.0.0.1:{free_port()}", start_timeout_ms=10, buffer_bytes=400, max_block_ms=10)
    taken = [logger.log({"page": "x" * 50}, event_time_ms=1_500) for _ in range(10)]
    assert 0 < sum(taken) < 10
    logger.close(timeout_ms=4_000)
    assert isinstance(logger.close_error, FlushTimedOut)
    assert books_of(broker) == {1_000: (0, {"dropped_buffer_full": 10 - sum(taken), "send_failed": sum(taken)})}
    assert reports_of(broker)[-1].state == "closed"


def _told(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [text for record in caplog.records if (text := record.getMessage()).split()[0] == event]


def test_a_cluster_that_is_away_is_told_once_with_address_and_reason_however_often_it_is_tried(
    registry: ScriptedRegistry, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with HangsUp() as nobody:
        make(bootstrap=nobody.address, start_timeout_ms=1_000)
        eventually(lambda: nobody.calls >= 5, what="several tries")
        (told,) = _told(caplog, "logger_waits")
        assert f"waits_for=the cluster at {nobody.address}" in told
        assert re.search(rf"to broker {nobody.address} failed: \w+", told), told
    broker = ScriptedBroker({"clicks": 1}, port=nobody.port)
    eventually(lambda: _told(caplog, "logger_goes_on"), what="the end of it told")
    assert len(_told(caplog, "logger_waits")) == len(_told(caplog, "logger_goes_on")) == 1
    assert _told(caplog, "logger_not_up_yet") == []
    broker.close()


def test_a_registry_that_is_away_is_told_once_with_address_and_reason(
    broker: ScriptedBroker, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    logger = make(registry_url=f"http://127.0.0.1:{port}", start_timeout_ms=3_000)
    reported = len(reports_of(broker))
    # It beats on while it waits, so that many beats are many tries.
    eventually(lambda: len(reports_of(broker)) > reported + 20, what="tries")
    assert _told(caplog, "logger_not_up_yet") == []
    with pytest.raises(FlushTimedOut, match=f"the latest try: POST http://127.0.0.1:{port}/"):
        logger.flush(timeout_ms=10)
    (told,) = _told(caplog, "logger_waits")
    assert f"waits_for=the schema registry at http://127.0.0.1:{port}" in told
    assert "Connection refused" in told
    registry = ScriptedRegistry(port)
    eventually(lambda: _told(caplog, "logger_goes_on"), what="the end of it told")
    assert len(_told(caplog, "logger_waits")) == 1
    registry.close()


def test_a_flush_without_a_cluster_says_what_it_waits_for(registry: ScriptedRegistry, make: Make) -> None:
    port = free_port()
    logger = make(bootstrap=f"127.0.0.1:{port}", start_timeout_ms=200)
    logger.log({"page": "/"})
    with pytest.raises(FlushTimedOut, match=f"127.0.0.1:{port} failed: Connection refused"):
        logger.flush(timeout_ms=100)


def test_a_refusal_that_comes_late_is_raised_by_the_next_event(make: Make) -> None:
    port = free_port()
    logger = make(registry_url=f"http://127.0.0.1:{port}", start_timeout_ms=10)
    registry = ScriptedRegistry(port, refusal=(409, {"error_code": 409, "message": "not compatible"}))

    def refused() -> bool:
        try:
            logger.log({"page": "/"})
        except IncompatibleSchema:
            return True
        return False

    eventually(refused)
    registry.close()


def test_the_application_starts_without_a_cluster_and_its_events_arrive_later(registry: ScriptedRegistry, make: Make) -> None:
    port = free_port()
    logger = make(bootstrap=f"127.0.0.1:{port}", start_timeout_ms=50)
    assert logger.log({"page": "/"}, event_time_ms=7)
    broker = ScriptedBroker({"clicks": 1}, port=port)
    logger.close()
    assert [event["event_time"] for _, event in events_of(broker)] == [7]
    assert books_of(broker) == {0: (1, {})}
    assert reports_of(broker)[0].windows == ()
    broker.close()
