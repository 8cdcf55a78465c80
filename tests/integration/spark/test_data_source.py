"""The Data Source as Spark calls it, on a real broker: planned and read here, without a JVM, against librdkafka's rows."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headrace.client.errors import BrokerUnreachable
from headrace.spark.data_source.batch_reader import TopicReader
from headrace.spark.data_source.topic_rows import Meter
from headrace.spark.errors import BadOption, NewFields, OffsetsLost, UnusableRecord, WarehouseError
from tests.support.librdkafka import read_all
from tests.support.source_reads import Stream, address, all_rows, batch_reader, rows, source
from tests.support.spark_stage import CLICK, LONG_AGO_MS, MINUTE_MS, Stage, click, event

WIDER = {**CLICK, "fields": [*CLICK["fields"], {"name": "referrer", "type": "string"}]}


def words(stage: Stage, options: Mapping[str, object]) -> dict[str, object]:
    return {"bootstrap": stage.broker.address, "topic": stage.topic, "registry": stage.registry.url, **options}


def batch(stage: Stage, *filters: Filter, **options: object) -> TopicReader:
    return batch_reader(words(stage, options), *filters)


def stream_of(stage: Stage, **options: object) -> Stream:
    return Stream(words(stage, options))


def filled(stage: Stage, count: int = 300, partitions: int = 3, **settings: object) -> int:
    schema_id = stage.register(CLICK)
    stage.create(partitions)
    stage.send([(n % partitions, LONG_AGO_MS + n * MINUTE_MS, click(schema_id, n)) for n in range(count)], **settings)
    return schema_id


def deleted_before(stage: Stage, partition: int, offset: int) -> int:
    admin = AdminClient({"bootstrap.servers": stage.broker.address})
    (done,) = admin.delete_records([TopicPartition(stage.topic, partition, offset)]).values()
    return int(done.result(20).low_watermark)


def at(number: int) -> datetime:
    return datetime.fromtimestamp((LONG_AGO_MS + number * MINUTE_MS) / 1000, UTC)


def test_every_record_is_a_row_once_and_raw_rows_are_what_librdkafka_reads(stage: Stage) -> None:
    schema_id = filled(stage)
    stage.send([(1, LONG_AGO_MS, b"no event"), (2, LONG_AGO_MS, click(schema_id, 7))])
    raw = all_rows(batch(stage, columns="raw", minPartitions=11))
    theirs = sorted(read_all(stage.broker.address, stage.topic), key=lambda one: (one.partition(), one.offset()))
    assert [
        (row["partition"], row["offset"], row["key"], row["value"], row["topic"], row["headers"], row["timestampType"])
        for row in raw
    ] == [(one.partition(), one.offset(), one.key(), one.value(), stage.topic, one.headers(), 0) for one in theirs]
    assert [row["timestamp"] for row in raw] == [datetime.fromtimestamp(one.timestamp()[1] / 1000, UTC) for one in theirs]
    assert [row["schema_id"] for row in raw] == [None if one.value() == b"no event" else schema_id for one in theirs]
    with pytest.raises(UnusableRecord, match="not_framed"):
        all_rows(batch(stage))
    aside = all_rows(batch(stage, quarantine=stage.broker.address, columns="both"))
    assert [row["event"]["path"] for row in aside] == [
        f"/{number}" for number in (*range(0, 300, 3), *range(1, 300, 3), *range(2, 300, 3), 7)
    ]
    assert [one.code for one in stage.quarantined().values()] == ["not_framed"]


def test_ranges_have_at_least_the_partitions_that_are_asked_for(stage: Stage) -> None:
    filled(stage)
    assert len(batch(stage, minPartitions=17).partitions()) >= 17
    assert len(batch(stage).partitions()) == 3


def test_places_by_offset_and_by_time(stage: Stage) -> None:
    filled(stage)
    log = [(one.partition(), one.offset(), one.timestamp()[1]) for one in read_all(stage.broker.address, stage.topic)]
    from_ms, to_ms = LONG_AGO_MS + 100 * MINUTE_MS, LONG_AGO_MS + 200 * MINUTE_MS
    found = all_rows(batch(stage, startingTimestamp=from_ms, endingTimestamp=to_ms))
    assert [(row["_topic_partition"], row["_offset"]) for row in found] == sorted(
        (partition, offset) for partition, offset, ms in log if from_ms <= ms < to_ms
    )
    middle = sorted(offset for partition, offset, _ in log if partition == 1)[50]
    begin = json.dumps({stage.topic: {"0": -1, "1": middle, "2": -2}})
    end = json.dumps({stage.topic: {"0": -1, "1": middle + 1, "2": -1}})
    found = all_rows(batch(stage, startingOffsets=begin, endingOffsets=end))
    assert [(row["_topic_partition"], row["_offset"]) for row in found] == sorted(
        (partition, offset) for partition, offset, _ in log if partition == 2 or (partition == 1 and offset == middle)
    )
    with pytest.raises(BadOption, match="no record of partition"):
        batch(stage, startingTimestamp=to_ms * 2).partitions()
    late = batch(stage, startingTimestamp=to_ms * 2, startingOffsetsByTimestampStrategy="latest")
    assert all_rows(late) == []


def test_filters_narrow_what_is_read_and_lose_nothing(stage: Stage) -> None:
    """Counted: bytes that came, records that were opened, values that were decoded."""
    filled(stage, 900, **{"batch.num.messages": 10, "linger.ms": 0})
    whole, some = Meter(), Meter()
    everything = all_rows(batch(stage), whole)
    pushed = (EqualTo(("_topic_partition",), 1), GreaterThanOrEqual(("_timestamp",), at(600)), LessThan(("_timestamp",), at(700)))
    found = all_rows(batch(stage, *pushed, filterPushdown="true"), some)
    wanted = [row for row in everything if row["_topic_partition"] == 1 and at(600) <= row["_timestamp"] < at(700)]
    assert wanted == found
    assert len(wanted) == 33
    assert (whole.values_decoded, some.values_decoded) == (1800, 66)
    assert some.fetched_bytes < whole.fetched_bytes / 4
    assert some.records_filtered > 0
    first = everything[0]["_offset"]
    offsets = In(("_offset",), (first, everything[5]["_offset"]))
    one = all_rows(batch(stage, EqualTo(("_topic_partition",), 0), offsets, filterPushdown="true"))
    assert one == everything[:6], "a range from the first to the last; Spark does the rest"


def test_late_records_are_in_a_time_filter(stage: Stage) -> None:
    """Times do not ascend with offsets: what a search by time gives is where reading begins, never where it ends."""
    schema_id = filled(stage, 3, 1)
    for number in (900, 5, 901, 6):
        stage.send([(0, LONG_AGO_MS + number * MINUTE_MS, click(schema_id, number))])
    found = all_rows(batch(stage, LessThan(("_timestamp",), at(6)), filterPushdown="true"))
    assert [row["path"] for row in found] == ["/0", "/1", "/2", "/5"]
    found = all_rows(batch(stage, GreaterThanOrEqual(("_timestamp",), at(6)), filterPushdown="true"))
    assert [row["path"] for row in found] == ["/900", "/901", "/6"]
    before_1970 = datetime(1960, 1, 1, tzinfo=UTC)
    assert len(all_rows(batch(stage, GreaterThanOrEqual(("_timestamp",), before_1970), filterPushdown="true"))) == 7


def test_only_the_named_columns_are_decoded(stage: Stage) -> None:
    filled(stage)
    meter = Meter()
    found = all_rows(batch(stage, columns="status,_offset,key"), meter)
    assert [*found[0]] == ["status", "_offset", "key"]
    assert meter.values_decoded == 300
    assert sorted(row["status"] for row in found) == sorted(200 + n % 5 for n in range(300))
    with pytest.raises(BadOption, match="there is no column stauts; there are key, value"):
        batch(stage, columns="stauts")


def test_a_field_that_came_after_the_start_is_told_or_an_error_and_never_a_lost_row(stage: Stage) -> None:
    """Fault: rows of a schema with a field that the DataFrame lacks were left out without a word."""
    schema_id = filled(stage, 3, 1)
    readers = [batch(stage), batch(stage, newFields="ignore"), batch(stage, columns="path")]
    wider = stage.register(WIDER)
    assert wider != schema_id
    stage.send([(0, LONG_AGO_MS, event(wider, WIDER, {"path": "/new", "status": 1, "referrer": "elsewhere"}))])
    with pytest.raises(NewFields, match=rf"schema id {wider} have field\(s\) referrer.*newFields=ignore"):
        all_rows(readers[0])
    assert [row["path"] for row in all_rows(readers[1])] == ["/0", "/1", "/2", "/new"]
    assert [row["path"] for row in all_rows(readers[2])] == ["/0", "/1", "/2", "/new"]
    assert all_rows(batch(stage))[-1]["referrer"] == "elsewhere"


def test_what_contradicts_the_columns_goes_aside_with_its_reason(stage: Stage) -> None:
    filled(stage, 3, 1)
    other = {**CLICK, "fields": [CLICK["fields"][0], {"name": "status", "type": "string"}]}
    stage.send([(0, LONG_AGO_MS, event(stage.register(other), other, {"path": "/odd", "status": "fine"}))])
    with pytest.raises(UnusableRecord, match="field 'status' is string"):
        all_rows(batch(stage))
    assert len(all_rows(batch(stage, quarantine=stage.broker.address))) == 3
    (one,) = stage.quarantined().values()
    assert one.code == "schema_refused"
    assert "field 'status' is string in the writer's schema and int64 in the table" in one.reason


def test_offsets_that_were_deleted_are_an_error_or_a_named_gap(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    filled(stage)
    offsets = [row["_offset"] for row in all_rows(batch(stage)) if row["_topic_partition"] == 0]
    begin = json.dumps({stage.topic: {"0": offsets[10], "1": -2, "2": -2}})
    planned = batch(stage, startingOffsets=begin)
    forgiving = batch(stage, startingOffsets=begin, failOnDataLoss="false")
    splits, forgiven = planned.partitions(), forgiving.partitions()
    first = deleted_before(stage, 0, offsets[40])
    lost = rf"{stage.topic}-0 offsets {offsets[10]} to {first} cannot be read any more.*failOnDataLoss=false"
    with pytest.raises(OffsetsLost, match=lost):
        batch(stage, startingOffsets=begin).partitions()
    with pytest.raises(OffsetsLost, match=lost):
        rows(planned, splits)
    meter = Meter()
    assert len(rows(forgiving, forgiven[:1], meter)) == 100 - 40
    assert [(gap.partition, gap.from_offset, gap.to_offset) for gap in meter.lost] == [(0, offsets[10], first)]
    assert "offsets_lost" in caplog.text
    caplog.clear()
    assert len(all_rows(batch(stage, startingOffsets=begin, failOnDataLoss="false"))) == 300 - 40
    assert f"from_offset={offsets[10]} to_offset={first}" in caplog.text
    assert len(all_rows(batch(stage))) == 300 - 40, "from the earliest on, nothing is missing"


def addresses(found: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted(map(address, found))


def test_a_stream_in_small_batches_has_every_record_once(stage: Stage) -> None:
    schema_id = filled(stage, 200)
    stream = stream_of(stage, startingOffsets="earliest", maxOffsetsPerTrigger=500)
    found = stream.all()
    assert len(stream.planned) > 5
    for begin, end in stream.planned:
        taken = sum(end[stage.topic][one] - begin[stage.topic][one] for one in end[stage.topic])
        assert 0 < taken <= 500, "on our broker an offset is a byte"
    stage.send([(0, LONG_AGO_MS, click(schema_id, 1000))])
    found += stream.all()
    assert addresses(found) == sorted((partition, offset) for partition, offset, _ in stage.in_the_log())
    assert stream.trigger() == []


def test_a_new_stream_begins_at_the_end_and_its_first_batch_fixes_where_that_was(stage: Stage) -> None:
    """Fault: begun at `latest` and ended before the first record, a query forgot where it had begun, and began again later."""
    schema_id = filled(stage, 10, 1)
    stream = stream_of(stage)
    assert stream.trigger() == []
    assert len(stream.planned) == 1, "an empty batch is in the checkpoint"
    stage.send([(0, LONG_AGO_MS, click(schema_id, 77))])
    stream.restart()
    assert [row["path"] for row in stream.all()] == ["/77"]


def test_partitions_that_are_added_are_found_and_read_from_their_start(stage: Stage) -> None:
    schema_id = filled(stage, 10, 1)
    stream = stream_of(stage)
    assert stream.all() == []
    admin = AdminClient({"bootstrap.servers": stage.broker.address})
    admin.create_partitions([NewPartitions(stage.topic, 3)])[stage.topic].result(20)
    stage.send([(2, LONG_AGO_MS, click(schema_id, 5)), (0, LONG_AGO_MS, click(schema_id, 6))])
    assert [(row["_topic_partition"], row["path"]) for row in stream.all()] == [(0, "/6"), (2, "/5")]


def test_available_now_ends_where_the_log_ended(stage: Stage) -> None:
    schema_id = filled(stage, 100, 2)
    stream = stream_of(stage, startingOffsets="earliest", maxOffsetsPerTrigger=1_000)
    stream.reader.prepareForTriggerAvailableNow()
    stage.send([(n % 2, LONG_AGO_MS, click(schema_id, n)) for n in range(100)])
    found, limit = [], stream.reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(1_000)
    while (end := stream.reader.latestOffset(stream.at, limit)) != stream.at:
        found += rows(stream.reader, list(stream.reader.partitions(stream.at, end)))
        stream.at = end
    assert len(found) == 100
    stream.restart()
    assert len(stream.all()) == 100


def test_a_stream_names_what_retention_took_in_its_progress(stage: Stage) -> None:
    schema_id = filled(stage, 100, 1)
    strict = stream_of(stage, startingOffsets="earliest")
    lax = stream_of(stage, startingOffsets="earliest", failOnDataLoss="false")
    for stream in (strict, lax):
        assert len(stream.all()) == 100
    stage.send([(0, LONG_AGO_MS, click(schema_id, n)) for n in range(10)])
    known = strict.at[stage.topic]["0"]
    last = sorted(offset for _, offset, _ in stage.in_the_log())[-3]
    first = deleted_before(stage, 0, last)
    with pytest.raises(OffsetsLost, match=f"{stage.topic}-0 offsets {known} to {first} "):
        strict.reader.latestOffset(strict.at, ReadAllAvailable())
    assert len(lax.all()) == 3
    lost = lax.planned[-1][1][":lost"]
    assert lost["0"]["from"] == known
    assert lost["0"]["to"] == first
    assert "retention" in lost["0"]["reason"]
    stage.send([(0, LONG_AGO_MS, click(schema_id, 99))])
    assert len(lax.all()) == 1
    assert ":lost" not in lax.at, "told once"


def test_a_topic_that_was_made_anew_is_told_from_the_old_one(stage: Stage) -> None:
    """Fault: with as many records as before, a stream would continue in the middle of the new log."""
    schema_id = filled(stage, 50, 1)
    strict = stream_of(stage, startingOffsets="earliest")
    lax = stream_of(stage, startingOffsets="earliest", failOnDataLoss="false")
    for stream in (strict, lax):
        assert len(stream.all()) == 50
    admin = AdminClient({"bootstrap.servers": stage.broker.address})
    admin.delete_topics([stage.topic])[stage.topic].result(20)
    stage.create(1)
    stage.send([(0, LONG_AGO_MS, click(schema_id, n)) for n in range(80)])
    with pytest.raises(OffsetsLost, match="deleted and created again"):
        strict.reader.latestOffset(strict.at, ReadAllAvailable())
    assert len(lax.all()) == 80


def test_a_broker_that_is_killed_is_waited_for(stage: Stage) -> None:
    filled(stage, 50)
    stream = stream_of(stage, startingOffsets="earliest", maxOffsetsPerTrigger=1_000)
    found = stream.trigger()
    stage.broker.kill()
    try:
        with pytest.raises(BrokerUnreachable, match=stage.broker.address):
            stream_of(stage, waitMs=1)
    finally:
        stage.broker.launch()
    found += stream.all()
    stage.broker.await_ready()
    assert addresses(found) == sorted((partition, offset) for partition, offset, _ in stage.in_the_log())


def test_options_that_cannot_be_used_are_named(stage: Stage) -> None:
    stage.create(1)
    for options, told in (
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"startingOffsets": "{}"}, "is not of the form"),
        ({"startingOffsets": json.dumps({stage.topic: {"7": 1}})}, r"names partitions \[7\] and the topic has \[0\]"),
        ({"endingOffsets": "earliest"}, "ends at the earliest"),
        ({"failOnDataLoss": "perhaps"}, "'perhaps' is none of true, false"),
        ({"maxOffsetsPerTrigger": 5}, "a batch has no triggers"),
        ({"minPartitions": 0}, "not a whole number above 0"),
        ({"columns": "a,a"}, "list of different names"),
        ({"kafka.bootstrap.servers": "elsewhere:1"}, "under its other name"),
    ):
        with pytest.raises(WarehouseError, match=told):
            batch(stage, **options).partitions()
    found, _ = source(words(stage, {"endingOffsets": "latest"}))
    with pytest.raises(BadOption, match="a stream has no such option"):
        found.streamReader(found.schema())
    stream = stream_of(stage)
    with pytest.raises(WarehouseError, match="checkpointLocation of its own"):
        stream.reader.latestOffset({"another": {"0": 1}}, ReadAllAvailable())
