import time
from pathlib import Path

import pytest

from headrace.client.errors import DeliveryFailed
from headrace.runtime.clock import ManualClock
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.schema_registry.client import IncompatibleSchema
from headrace.sdk import EventLogger, EventRefused, LoggerClosed, NotSealed, TopicRefused, event_schema
from headrace.sdk.direct import logger_startup
from headrace.sdk.direct.logger_startup import LOOKS_A_BEAT
from headrace.wire.batch.record_batch import read_header
from headrace.wire.errors import ErrorCode
from headrace.wire.quarantine_record import FileOrigin, ProcessOrigin, QuarantineRecord
from tests.support.processes import eventually
from tests.support.scripted_broker import INIT_PRODUCER_ID, METADATA, PRODUCE, Fault, ScriptedBroker
from tests.support.told_by_producers import told
from tests.unit.sdk.logged import SCHEMA, WINDOW_MS, Make, books_of, direct, events_of, records_of, reports_of
from tests.unit.sdk.scripted_registry import ScriptedRegistry


def test_an_event_travels_framed_with_its_time_and_server(broker: ScriptedBroker, registry: ScriptedRegistry, make: Make) -> None:
    logger = make()
    assert logger.log({"page": "/a"}, event_time_ms=1_500, key=b"k")
    assert logger.log({"page": "/b", "event_time": 1_600, "server": "elsewhere"})
    logger.close()
    assert events_of(broker) == [
        (42, {"event_time": 1_500, "server": "web-1", "page": "/a"}),
        (42, {"event_time": 1_600, "server": "elsewhere", "page": "/b"}),
    ]
    assert [record.key for record in records_of(broker, "clicks")].count(b"k") == 1
    assert registry.registered == [("/subjects/clicks-value/versions", logger._encoder.text)]


def test_a_logger_says_at_its_start_that_no_table_can_hold_its_fields(
    broker: ScriptedBroker, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Fault: the logger takes the schema, and each load quarantines every event."""
    make()
    assert "schema_is_no_table" not in caplog.text
    make(schema=event_schema("Click", [{"name": "user", "type": "string"}, {"name": "User", "type": "string"}]))
    assert "schema_is_no_table" in caplog.text
    assert "'User' has the name of column 'user'" in caplog.text


def test_without_a_time_of_its_own_an_event_happens_now(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    before_ms = time.time_ns() // 1_000_000
    logger.log({"page": "/"})
    logger.close()
    assert before_ms <= events_of(broker)[0][1]["event_time"] <= time.time_ns() // 1_000_000


def test_the_audit_knows_of_the_logger_before_it_sees_an_event_and_of_its_end(broker: ScriptedBroker, make: Make) -> None:
    logger = make(instance="web-1/shop/7")
    assert records_of(broker, "clicks") == []
    first = reports_of(broker)[0]
    assert (first.instance, first.state, first.topics, first.windows) == ("web-1/shop/7", "open", ("clicks",), ())
    assert first.producer_ids == (direct(logger)._producer.producer_id,)
    for at in (100, 200, 1_100):
        logger.log({"page": "/"}, event_time_ms=at)
    logger.close()
    assert reports_of(broker)[-1].state == "closed"
    assert [report.sequence for report in reports_of(broker)] == list(range(len(reports_of(broker))))
    assert books_of(broker) == {0: (2, {}), 1_000: (1, {})}
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
    eventually(lambda: len(reports_of(broker)) > 3, what="beats")
    past = [report.moved_past_ms for report in reports_of(broker)]
    assert all(at is not None and at % WINDOW_MS == 0 for at in past)
    eventually(lambda: len({report.moved_past_ms for report in reports_of(broker)}) > 1, what="another window is over")


def test_a_logger_without_news_is_heard_at_each_fifth_look_and_one_with_news_at_the_next(
    broker: ScriptedBroker, make: Make
) -> None:
    clock = ManualClock(1_800_000_000_000)
    logger = make(report_every_ms=60_000, clock=clock, lateness_ms=86_400_000)
    startup = direct(logger)._startup
    startup._report()
    said = len(reports_of(broker))
    for _ in range(LOOKS_A_BEAT):
        startup._report()
    assert len(reports_of(broker)) == said
    assert startup._told_ms is not None
    startup._told_ms -= LOOKS_A_BEAT * 60_000
    startup._report()
    assert len(reports_of(broker)) == said + 1
    assert logger.log({"page": "/"}, event_time_ms=clock.now_ms())
    logger.flush()
    startup._report()
    assert len(reports_of(broker)) == said + 2
    startup._report()
    assert len(reports_of(broker)) == said + 2


def test_a_window_with_an_event_under_way_is_not_moved_past(broker: ScriptedBroker, make: Make) -> None:
    logger = make(lateness_ms=0, linger_ms=60_000)
    old_ms = time.time_ns() // 1_000_000 - 60_000
    eventually(lambda: len(reports_of(broker)) > 1)
    assert logger.log({"page": "/"}, event_time_ms=old_ms)
    reported = len(reports_of(broker))
    assert direct(logger)._moved_past_ms() == old_ms - old_ms % WINDOW_MS
    eventually(lambda: len(reports_of(broker)) > reported + 3)
    # What was said once stays said; it only does not continue from there.
    assert len({report.moved_past_ms for report in reports_of(broker)[reported + 2 :]}) == 1
    logger.flush()
    past_ms = direct(logger)._moved_past_ms()
    assert past_ms is not None
    assert past_ms > old_ms


def test_a_replay_moves_past_nothing_before_its_end(broker: ScriptedBroker, make: Make) -> None:
    logger = make(lateness_ms=None)
    logger.log({"page": "/"}, event_time_ms=5)
    eventually(lambda: len(reports_of(broker)) > 3)
    logger.close()
    assert {report.moved_past_ms for report in reports_of(broker)} == {None}
    assert reports_of(broker)[-1].state == "closed"


def test_an_event_that_does_not_fit_is_in_quarantine_with_reason_and_origin_and_in_the_books(
    broker: ScriptedBroker, make: Make
) -> None:
    logger = make(instance="i")
    assert not logger.log({"page": 7}, event_time_ms=1_234)
    assert not logger.log({"page": "/", "event_time": "yesterday"})
    assert not logger.log("no mapping")
    assert logger.log({"page": "/"}, event_time_ms=1_235)
    logger.close()
    records = [QuarantineRecord.from_json(record.value or b"") for record in records_of(broker, "clicks.quarantine")]
    first = records[0]
    assert (first.topic, first.stage, first.code) == ("clicks", "sdk", "schema_mismatch")
    assert first.reason == "field 'page' is 7 of type int, expected string"
    assert first.origin == ProcessOrigin(instance="i", sequence=0)
    assert (first.window_start_ms, first.window_from) == (1_000, "record")
    assert first.payload == b'{"page": 7}'
    assert [record.window_from for record in records[1:]] == ["clock", "clock"]
    assert books_of(broker)[1_000] == (1, {"quarantined": 1})
    assert sum(losses.get("quarantined", 0) for _, losses in books_of(broker).values()) == 3


def test_where_it_is_asked_for_a_bad_event_is_raised_and_counted(broker: ScriptedBroker, make: Make) -> None:
    logger = make(on_bad_event="raise")
    with pytest.raises(EventRefused, match="field 'page' is 7"):
        logger.log({"page": 7}, event_time_ms=1_234)
    logger.close()
    assert books_of(broker) == {1_000: (0, {"refused_by_schema": 1})}
    assert records_of(broker, "clicks.quarantine") == []


def test_events_that_the_application_left_out_are_told_in_the_window_of_their_time(broker: ScriptedBroker, make: Make) -> None:
    """Names a lack of the issue: `sampled` was a loss that nobody could tell."""
    logger = make(lateness_ms=None, only_between_ms=(1_000, 3_000))
    logger.log({"page": "/"}, event_time_ms=1_000)
    logger.sampled(event_time_ms=1_234)
    logger.sampled(98, event_time_ms=2_999)
    for count, at_ms in ((1, 999), (1, 3_000), (1, -1), (0, 1_000), (-1, 1_000), (True, 1_000), (1.5, 1_000)):
        with pytest.raises(EventRefused):
            logger.sampled(count, event_time_ms=at_ms)  # type: ignore[arg-type]
    logger.close()
    assert books_of(broker) == {1_000: (1, {"sampled": 1}), 2_000: (0, {"sampled": 98})}
    ledger = logger.ledger()
    assert (ledger.taken, dict(ledger.dropped)) == (1, {"sampled": 99})
    with pytest.raises(LoggerClosed):
        logger.sampled(event_time_ms=1_234)


def test_events_that_are_left_out_without_a_time_are_left_out_now(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    before_ms = time.time_ns() // 1_000_000
    logger.sampled(3)
    after_ms = time.time_ns() // 1_000_000
    logger.close()
    ((window, told),) = books_of(broker).items()
    assert before_ms - before_ms % WINDOW_MS <= window <= after_ms
    assert told == (0, {"sampled": 3})


def test_a_quarantine_that_cannot_be_reached_is_another_loss(broker: ScriptedBroker, make: Make) -> None:
    logger = make(delivery_timeout_ms=150)
    del broker.topics["clicks.quarantine"]
    logger.log({"page": 7}, event_time_ms=1_234)
    eventually(lambda: books_of(broker).get(1_000) == (0, {"refused_by_schema": 1}), what="the loss is reported")


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
    record = QuarantineRecord.from_json(records_of(broker, "clicks.quarantine")[0].value or b"")
    assert (record.stage, record.payload, record.window_start_ms) == ("replay", b"cut li", 3_000)
    assert books_of(broker) == {3_000: (0, {"quarantined": 1})}


def test_a_full_buffer_drops_and_counts(broker: ScriptedBroker, make: Make) -> None:
    logger = make(buffer_bytes=500, max_block_ms=10, linger_ms=60_000)
    broker.fail(PRODUCE, *[Fault(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 10)
    taken = [logger.log({"page": "x" * 50}, event_time_ms=1_500) for _ in range(20)]
    assert 0 < sum(taken) < 20
    broker.faults[PRODUCE].clear()
    logger.close()
    assert books_of(broker) == {1_000: (sum(taken), {"dropped_buffer_full": 20 - sum(taken)})}
    assert len(events_of(broker)) == sum(taken)


def test_an_event_larger_than_the_buffer_is_dropped_and_counted(broker: ScriptedBroker, make: Make) -> None:
    """Names a fault: it was counted as `dropped_buffer_full`."""
    logger = make(buffer_bytes=500)
    assert not logger.log({"page": "x" * 1_000}, event_time_ms=1_500)
    logger.close()
    assert books_of(broker) == {1_000: (0, {"dropped_too_large": 1})}


def test_a_batch_is_told_as_the_log_holds_it(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    for at in (1_500, 1_600):
        logger.log({"page": "/"}, event_time_ms=at)
    logger.close()
    stored = [
        (partition, read_header(bytes(batch)))
        for partition, held in enumerate(broker.topics["clicks"])
        for _, batch in held.batches
    ]
    assert told(reports_of(broker))["clicks", 1_000].acknowledged == {
        (partition, header.producer_id, header.producer_epoch, header.base_sequence + index, header.crc)
        for partition, header in stored
        for index in range(header.record_count)
    }


def hold(logger: EventLogger, timestamp_ms: int) -> None:
    """Return once the audit topic has acknowledged that the logger may hold events of this time: the next one only sends."""
    eventually(lambda: not direct(logger).must_wait(timestamp_ms), what="the promise")


def test_a_batch_that_the_cluster_refuses_is_a_loss_of_that_name(broker: ScriptedBroker, make: Make) -> None:
    logger = make(report_every_ms=60_000)
    eventually(lambda: len(reports_of(broker)) >= 1, what="the announcement")
    hold(logger, 1_500)
    broker.fail(PRODUCE, Fault(error_code=ErrorCode.POLICY_VIOLATION))
    logger.log({"page": "/"}, event_time_ms=1_500)
    with pytest.raises(DeliveryFailed):
        logger.flush()
    logger.close()
    assert books_of(broker) == {1_000: (0, {"refused": 1})}


def test_a_batch_without_a_response_is_told_as_uncertain(broker: ScriptedBroker, make: Make) -> None:
    logger = make(delivery_timeout_ms=150, report_every_ms=60_000)
    eventually(lambda: len(reports_of(broker)) >= 1, what="the announcement")
    hold(logger, 1_500)
    broker.fail(PRODUCE, Fault(close_after=True), *[Fault(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 100)
    logger.log({"page": "/"}, event_time_ms=1_500)
    with pytest.raises(DeliveryFailed):
        logger.flush()
    broker.faults[PRODUCE].clear()
    logger.close()
    found = told(reports_of(broker))["clicks", 1_000]
    (header,) = [read_header(bytes(batch)) for held in broker.topics["clicks"] for _, batch in held.batches]
    assert {(record[1], record[3], record[4]) for record in found.uncertain} == {(header.producer_id, 0, header.crc)}
    assert (found.acknowledged, found.losses) == (set(), {})


def test_a_replay_announces_the_times_of_its_events_and_refuses_others(broker: ScriptedBroker, make: Make) -> None:
    """Names a fault: a killed replay of one event of another day made every window of the topic UNKNOWN."""
    logger = make(lateness_ms=None, only_between_ms=(1_000, 2_000))
    assert reports_of(broker)[0].only_between_ms == (1_000, 2_000)
    assert logger.is_announced
    assert [logger.log({"page": "/"}, event_time_ms=at) for at in (999, 1_000, 1_999, 2_000)] == [False, True, True, False]
    logger.close()
    assert {report.only_between_ms for report in reports_of(broker)} == {(1_000, 2_000)}
    assert books_of(broker) == {0: (0, {"quarantined": 1}), 1_000: (2, {}), 2_000: (0, {"quarantined": 1})}
    record = QuarantineRecord.from_json(records_of(broker, "clicks.quarantine")[0].value or b"")
    assert "a time from 1000 on and before 2000 ms, as this logger announced" in record.reason


def test_what_cannot_be_sent_is_a_send_failure(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    eventually(lambda: len(reports_of(broker)) > 0)
    logger.log({"page": "/first"}, event_time_ms=1_500)
    logger.flush()
    del broker.topics["clicks"][:]
    broker.fail(METADATA, *[Fault(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)] * 200)
    direct(logger)._cluster.forget("clicks")
    logger.log({"page": "/second"}, event_time_ms=1_500)
    with pytest.raises(DeliveryFailed):
        logger.flush()
    broker.faults[METADATA].clear()
    logger.close()
    assert books_of(broker) == {1_000: (1, {"send_failed": 1})}


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
    reports = reports_of(broker)
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
        if len(direct(logger)._producer.producer_ids) > 1:
            break
    assert len(direct(logger)._producer.producer_ids) == 2
    eventually(lambda: reports_of(broker)[-1].producer_ids == tuple(sorted(direct(logger)._producer.producer_ids)))


def test_an_end_that_the_audit_does_not_hear_of_is_told_and_not_raised(
    broker: ScriptedBroker, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logger_startup, "STEP_TIMEOUT_MS", 100)
    logger = make()
    broker.close()
    logger.close(timeout_ms=100)
    assert isinstance(logger.close_error, NotSealed)
    assert "ends unsealed" in str(logger.close_error)


def test_a_closed_logger_takes_nothing_and_closes_once(broker: ScriptedBroker, make: Make) -> None:
    with make() as logger:
        logger.log({"page": "/"}, event_time_ms=1)
    logger.close()
    with pytest.raises(LoggerClosed):
        logger.log({"page": "/"})
    assert sum(report.state == "closed" for report in reports_of(broker)) == 1


def test_a_cluster_that_gives_no_producer_ids_is_a_clear_failure(broker: ScriptedBroker, make: Make) -> None:
    del broker.served[INIT_PRODUCER_ID]
    with pytest.raises(Exception, match="InitProducerId"):
        make()
