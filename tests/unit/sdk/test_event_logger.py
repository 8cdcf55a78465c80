import io
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import ProducerReport
from headrace.client.errors import DeliveryFailed, FlushTimedOut
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.schema_registry.client import IncompatibleSchema
from headrace.sdk import EventLogger, EventRefused, LoggerClosed, LoggerForked, NotSealed, TopicRefused, event_schema, keeper
from headrace.wire.errors import ErrorCode
from headrace.wire.quarantine_record import FileOrigin, ProcessOrigin, QuarantineRecord
from headrace.wire.record_batch import Record, iter_records, read_header
from headrace.wire.schema_id import unframe
from tests.support.processes import eventually, free_port
from tests.support.scripted_broker import INIT_PRODUCER_ID, METADATA, PRODUCE, Fault, ScriptedBroker
from tests.unit.sdk.scripted_registry import ScriptedRegistry

SCHEMA = event_schema("Click", [{"name": "page", "type": "string"}])
WINDOW_MS = 1_000
Make = Callable[..., EventLogger]


class HangsUp:
    """Takes every call on a port of its own, counts it, and hangs up."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.calls = 0

    def __enter__(self) -> "HangsUp":
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self.calls += 1
            caller.close()


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    made = ScriptedBroker({"clicks": 2, "clicks.quarantine": 1})
    yield made
    made.close()


@pytest.fixture
def registry() -> Iterator[ScriptedRegistry]:
    made = ScriptedRegistry()
    yield made
    made.close()


@pytest.fixture
def make(broker: ScriptedBroker, registry: ScriptedRegistry) -> Iterator[Make]:
    made: list[EventLogger] = []

    def make(**changes: Any) -> EventLogger:
        settings: dict[str, Any] = {
            "bootstrap": broker.address,
            "registry_url": registry.url,
            "application": "shop",
            "server_name": "web-1",
            "window_ms": WINDOW_MS,
            "report_every_ms": 20,
            "linger_ms": 1,
            **changes,
        }
        made.append(EventLogger("clicks", SCHEMA, **settings))
        return made[-1]

    yield make
    for logger in made:
        try:
            logger.close(timeout_ms=0)
        except (NotSealed, FlushTimedOut, DeliveryFailed, IncompatibleSchema):
            pass


def _records(broker: ScriptedBroker, topic: str) -> list[Record]:
    batches = [bytes(batch) for held in broker.topics.get(topic, []) for _, batch in held.batches]
    return [record for batch in batches for record in iter_records(batch)]


def _events(broker: ScriptedBroker) -> list[tuple[int, dict[str, Any]]]:
    """Return (schema id, event), checked against the record's own timestamp, by event time."""
    found = []
    for record in _records(broker, "clicks"):
        assert record.value is not None
        schema_id, body = unframe(record.value)
        event: Any = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(SCHEMA), None)
        assert int(event["event_time"].timestamp() * 1000) == record.timestamp_ms
        found.append((schema_id, {**event, "event_time": record.timestamp_ms}))
    return sorted(found, key=lambda pair: pair[1]["event_time"])


def _reports(broker: ScriptedBroker) -> list[ProducerReport]:
    reports = [decode(record.value) for record in _records(broker, AUDIT_TOPIC)]
    assert all(isinstance(report, ProducerReport) for report in reports)
    return [report for report in reports if isinstance(report, ProducerReport)]


def _books(broker: ScriptedBroker) -> dict[int, tuple[int, dict[str, int]]]:
    """Return window start → (acknowledged, losses) as the audit would sum them up: a later report replaces an earlier one."""
    books: dict[int, tuple[int, dict[str, int]]] = {}
    for report in _reports(broker):
        for window in report.windows:
            books[window.window_start_ms] = (sum(window.counts.values()), dict(window.losses))
    return books


def test_an_event_travels_framed_with_its_time_and_server(broker: ScriptedBroker, registry: ScriptedRegistry, make: Make) -> None:
    logger = make()
    assert logger.log({"page": "/a"}, event_time_ms=1_500, key=b"k")
    assert logger.log({"page": "/b", "event_time": 1_600, "server": "elsewhere"})
    logger.close()
    assert _events(broker) == [
        (42, {"event_time": 1_500, "server": "web-1", "page": "/a"}),
        (42, {"event_time": 1_600, "server": "elsewhere", "page": "/b"}),
    ]
    assert [record.key for record in _records(broker, "clicks")].count(b"k") == 1
    assert registry.registered == [("/subjects/clicks-value/versions", logger._encoder.text)]


def test_without_a_time_of_its_own_an_event_happens_now(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    before_ms = time.time_ns() // 1_000_000
    logger.log({"page": "/"})
    logger.close()
    assert before_ms <= _events(broker)[0][1]["event_time"] <= time.time_ns() // 1_000_000


def test_the_audit_knows_of_the_logger_before_it_sees_an_event_and_of_its_end(broker: ScriptedBroker, make: Make) -> None:
    logger = make(instance="web-1/shop/7")
    assert _records(broker, "clicks") == []
    first = _reports(broker)[0]
    assert (first.instance, first.state, first.topics, first.windows) == ("web-1/shop/7", "open", ("clicks",), ())
    assert first.producer_ids == (logger._producer.producer_id,)
    for at in (100, 200, 1_100):
        logger.log({"page": "/"}, event_time_ms=at)
    logger.close()
    assert _reports(broker)[-1].state == "closed"
    assert [report.sequence for report in _reports(broker)] == list(range(len(_reports(broker))))
    assert _books(broker) == {0: (2, {}), 1_000: (1, {})}
    header = read_header(bytes(next(held.batches[0][1] for held in broker.topics["clicks"] if held.batches)))
    assert header.producer_id in first.producer_ids


def test_batches_end_at_window_borders(broker: ScriptedBroker, make: Make) -> None:
    logger = make(linger_ms=10_000)
    for at in (10, 999, 1_000, 1_999, 2_000):
        logger.log({"page": "/"}, event_time_ms=at)
    logger.close()
    for held in broker.topics["clicks"]:
        for _, batch in held.batches:
            header = read_header(bytes(batch))
            assert header.timestamps_bounded
            assert header.base_timestamp_ms // WINDOW_MS == header.max_timestamp_ms // WINDOW_MS


def test_a_beat_comes_by_itself_and_moves_past_windows_that_are_over(broker: ScriptedBroker, make: Make) -> None:
    make(lateness_ms=0)
    eventually(lambda: len(_reports(broker)) > 3, what="beats")
    past = [report.moved_past_ms for report in _reports(broker)]
    assert all(at is not None and at % WINDOW_MS == 0 for at in past)
    eventually(lambda: len({report.moved_past_ms for report in _reports(broker)}) > 1, what="another window is over")


def test_a_window_with_an_event_under_way_is_not_moved_past(broker: ScriptedBroker, make: Make) -> None:
    logger = make(lateness_ms=0)
    old_ms = time.time_ns() // 1_000_000 - 60_000
    broker.fail(PRODUCE, *[Fault(delay_ms=100)] * 3)
    eventually(lambda: len(_reports(broker)) > 1)
    logger._windows.enter(old_ms)
    reported = len(_reports(broker))
    assert logger._windows.moved_past_ms(time.time_ns() // 1_000_000, 0) == old_ms - old_ms % WINDOW_MS
    eventually(lambda: len(_reports(broker)) > reported + 3)
    # What was said once stays said; it only does not go on from there.
    assert len({report.moved_past_ms for report in _reports(broker)[reported + 2 :]}) == 1
    logger._windows.leave(old_ms)


def test_a_replay_moves_past_nothing_before_its_end(broker: ScriptedBroker, make: Make) -> None:
    logger = make(lateness_ms=None)
    logger.log({"page": "/"}, event_time_ms=5)
    eventually(lambda: len(_reports(broker)) > 3)
    logger.close()
    assert {report.moved_past_ms for report in _reports(broker)} == {None}
    assert _reports(broker)[-1].state == "closed"


def test_an_event_that_does_not_fit_is_in_quarantine_with_reason_and_origin_and_in_the_books(
    broker: ScriptedBroker, make: Make
) -> None:
    logger = make(instance="i")
    assert not logger.log({"page": 7}, event_time_ms=1_234)
    assert not logger.log({"page": "/", "event_time": "yesterday"})
    assert not logger.log("no mapping")  # type: ignore[arg-type]
    assert logger.log({"page": "/"}, event_time_ms=1_235)
    logger.close()
    records = [QuarantineRecord.from_json(record.value or b"") for record in _records(broker, "clicks.quarantine")]
    first = records[0]
    assert (first.topic, first.stage, first.code) == ("clicks", "sdk", "schema_mismatch")
    assert first.reason == "field 'page' is 7 of type int, expected string"
    assert first.origin == ProcessOrigin(instance="i", sequence=0)
    assert (first.window_start_ms, first.window_from) == (1_000, "record")
    assert first.payload == b'{"page": 7}'
    assert [record.window_from for record in records[1:]] == ["clock", "clock"]
    assert _books(broker)[1_000] == (1, {"quarantined": 1})
    assert sum(losses.get("quarantined", 0) for _, losses in _books(broker).values()) == 3


def test_where_it_is_asked_for_a_bad_event_is_raised_and_counted(broker: ScriptedBroker, make: Make) -> None:
    logger = make(on_bad_event="raise")
    with pytest.raises(EventRefused, match="field 'page' is 7"):
        logger.log({"page": 7}, event_time_ms=1_234)
    logger.close()
    assert _books(broker) == {1_000: (0, {"refused_by_schema": 1})}
    assert _records(broker, "clicks.quarantine") == []


def test_a_quarantine_that_cannot_be_reached_is_another_loss(broker: ScriptedBroker, make: Make) -> None:
    logger = make(delivery_timeout_ms=150)
    del broker.topics["clicks.quarantine"]
    logger.log({"page": 7}, event_time_ms=1_234)
    eventually(lambda: _books(broker).get(1_000) == (0, {"refused_by_schema": 1}), what="the loss is reported")


def test_what_is_no_event_yet_can_be_put_in_quarantine(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    logger.quarantine(
        b"cut li",
        code="unparsable_line",
        reason="the line is cut",
        origin=FileOrigin(file="access.log", line=8899),
        window_start_ms=3_456,
        window_from="previous",
        stage="replay",
    )
    logger.close()
    record = QuarantineRecord.from_json(_records(broker, "clicks.quarantine")[0].value or b"")
    assert (record.stage, record.payload, record.window_start_ms) == ("replay", b"cut li", 3_000)
    assert _books(broker) == {3_000: (0, {"quarantined": 1})}


def test_a_full_buffer_drops_and_counts(broker: ScriptedBroker, make: Make) -> None:
    logger = make(buffer_bytes=500, max_block_ms=10, linger_ms=60_000)
    broker.fail(PRODUCE, *[Fault(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 10)
    taken = [logger.log({"page": "x" * 50}, event_time_ms=1_500) for _ in range(20)]
    assert 0 < sum(taken) < 20
    broker.faults[PRODUCE].clear()
    logger.close()
    assert _books(broker) == {1_000: (sum(taken), {"dropped_buffer_full": 20 - sum(taken)})}
    assert len(_events(broker)) == sum(taken)


def test_an_event_larger_than_the_buffer_is_dropped_and_counted(broker: ScriptedBroker, make: Make) -> None:
    logger = make(buffer_bytes=500)
    assert not logger.log({"page": "x" * 1_000}, event_time_ms=1_500)
    logger.close()
    assert _books(broker) == {1_000: (0, {"dropped_buffer_full": 1})}


def test_what_the_cluster_refuses_is_a_send_failure_in_the_books(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    eventually(lambda: len(_reports(broker)) > 0)
    logger.log({"page": "/first"}, event_time_ms=1_500)
    logger.flush()
    del broker.topics["clicks"][:]
    broker.fail(METADATA, *[Fault(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)] * 200)
    logger._cluster.forget("clicks")
    logger.log({"page": "/second"}, event_time_ms=1_500)
    with pytest.raises(DeliveryFailed):
        logger.flush()
    broker.faults[METADATA].clear()
    logger.close()
    assert _books(broker) == {1_000: (1, {"send_failed": 1})}


def test_events_go_on_while_the_registry_is_away_once_the_id_is_on_disk(
    broker: ScriptedBroker, registry: ScriptedRegistry, make: Make, tmp_path: Path
) -> None:
    make(schema_cache=tmp_path).close()
    registry.close()
    logger = make(schema_cache=tmp_path)
    assert logger.log({"page": "/"}, event_time_ms=1)
    logger.close()
    assert _events(broker) == [(42, {"event_time": 1, "server": "web-1", "page": "/"})]


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
    assert [event["event_time"] for _, event in _events(broker)] == [0, 1, 2, 3, 4, 5]
    assert _books(broker) == {0: (6, {})}


def test_the_wait_for_the_registry_is_bounded_and_counted(broker: ScriptedBroker, make: Make) -> None:
    logger = make(registry_url=f"http://127.0.0.1:{free_port()}", start_timeout_ms=10, buffer_bytes=400, max_block_ms=10)
    taken = [logger.log({"page": "x" * 50}, event_time_ms=1_500) for _ in range(10)]
    assert 0 < sum(taken) < 10
    with pytest.raises(FlushTimedOut):
        logger.close(timeout_ms=1_200)
    assert _books(broker) == {1_000: (0, {"dropped_buffer_full": 10 - sum(taken), "send_failed": sum(taken)})}
    assert _reports(broker)[-1].state == "closed"


def test_a_schema_that_the_registry_refuses_is_refused_at_once(registry: ScriptedRegistry, make: Make) -> None:
    registry.refusal = (409, {"error_code": 409, "message": "READER_FIELD_MISSING_DEFAULT_VALUE: page"})
    with pytest.raises(IncompatibleSchema, match="page"):
        make()


def test_a_refused_schema_is_one_clear_error_from_the_logger_itself(registry: ScriptedRegistry, make: Make) -> None:
    registry.refusal = (409, {"error_code": 409, "message": "record Click cannot read record AccessLog (NAME_MISMATCH)"})
    with pytest.raises(IncompatibleSchema) as raised:
        make()
    told = str(raised.value)
    assert "topic 'clicks' holds events of another schema than headrace.events.Click" in told
    assert f"the registry at {registry.url} refused it for subject 'clicks-value'" in told
    assert raised.value.__suppress_context__
    shown = [Path(one.path).name for one in raised.traceback]
    assert shown[-1] == "event_logger.py", f"no frame of the thread that met it: {shown}"
    assert "keeper.py" not in shown


def test_the_run_of_a_refused_logger_is_sealed_so_that_no_window_waits_for_it(
    broker: ScriptedBroker, registry: ScriptedRegistry, make: Make
) -> None:
    registry.refusal = (409, {"error_code": 409, "message": "not compatible"})
    with pytest.raises(IncompatibleSchema):
        make(lateness_ms=None)
    reports = _reports(broker)
    assert [report.state for report in reports][-1] == "closed"
    assert {report.instance for report in reports} == {reports[0].instance}


def test_a_topic_name_that_cannot_be_is_refused_before_the_audit_hears_of_it(
    broker: ScriptedBroker, registry: ScriptedRegistry
) -> None:
    with pytest.raises(TopicRefused, match="'bad topic!' may only have letters"):
        EventLogger("bad topic!", SCHEMA, bootstrap=broker.address, registry_url=registry.url, application="shop")
    assert broker.requests == []
    assert registry.registered == []


def test_acknowledged_events_are_counted(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    for at in (1, 2, 1_500):
        logger.log({"page": "/"}, event_time_ms=at)
    logger.log({"page": 7}, event_time_ms=3)
    logger.close()
    assert logger.acknowledged_count == 3


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
    reported = len(_reports(broker))
    # It beats on while it waits, so that many beats are many tries.
    eventually(lambda: len(_reports(broker)) > reported + 20, what="tries")
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
    assert [event["event_time"] for _, event in _events(broker)] == [7]
    assert _books(broker) == {0: (1, {})}
    assert _reports(broker)[0].windows == ()
    broker.close()


def test_the_audit_topic_is_made_where_there_is_none(broker: ScriptedBroker, make: Make) -> None:
    make()
    assert len(broker.topics[AUDIT_TOPIC]) == 1


def test_a_second_producer_id_is_told_to_the_audit(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    logger.log({"page": "/a"}, event_time_ms=1)
    logger.flush()
    held = next(partition for partition in broker.topics["clicks"] if partition.batches)
    held.sequences.clear()
    held.last.clear()
    for _ in range(30):
        logger.log({"page": "/b"}, event_time_ms=2)
        logger.flush()
        if len(logger._producer.producer_ids) > 1:
            break
    assert len(logger._producer.producer_ids) == 2
    eventually(lambda: _reports(broker)[-1].producer_ids == tuple(sorted(logger._producer.producer_ids)))


def test_an_end_that_the_audit_does_not_hear_of_is_raised(
    broker: ScriptedBroker, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "STEP_TIMEOUT_MS", 100)
    logger = make()
    broker.close()
    with pytest.raises(NotSealed, match="ends unsealed"):
        logger.close(timeout_ms=100)


def test_a_closed_logger_takes_nothing_and_closes_once(broker: ScriptedBroker, make: Make) -> None:
    with make() as logger:
        logger.log({"page": "/"}, event_time_ms=1)
    logger.close()
    with pytest.raises(LoggerClosed):
        logger.log({"page": "/"})
    assert sum(report.state == "closed" for report in _reports(broker)) == 1


def test_a_forked_child_is_told_to_make_its_own(make: Make) -> None:
    logger = make()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            logger.log({"page": "/"})
        except LoggerForked as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"make one in each process, after the fork" in os.read(reading, 1_000)


def test_a_cluster_that_gives_no_producer_ids_is_a_clear_failure(broker: ScriptedBroker, make: Make) -> None:
    del broker.served[INIT_PRODUCER_ID]
    with pytest.raises(Exception, match="InitProducerId"):
        make()
