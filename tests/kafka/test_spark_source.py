"""The Data Source on Apache Kafka, where offsets number records: the same rows, limits, gaps and topics created again."""

from datetime import UTC, datetime, timedelta

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql.datasource import GreaterThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.spark.errors import OffsetsLost
from tests.support.kafka import KafkaProcess
from tests.support.librdkafka import read_all
from tests.support.source_reads import Stream, address, all_rows, batch_reader

MAY_2015_MS = 1_431_857_100_000


def instant_of(timestamp_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)


def words(kafka: KafkaProcess, topic: str, **more: object) -> dict[str, object]:
    return {"bootstrap": kafka.address, "topic": topic, "columns": "raw", **more}


def made(kafka: KafkaProcess, topic: str, partitions: int = 2, **config: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)
    return admin


def send(kafka: KafkaProcess, topic: str, numbers: range, partitions: int = 2, **settings: object) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address, **settings})
    if "transactional.id" in settings:
        producer.init_transactions(30)
        producer.begin_transaction()
    for n in numbers:
        headers = [("n", str(n).encode()), ("none", None)]
        producer.produce(topic, f"v{n}", f"k{n}", n % partitions, timestamp=MAY_2015_MS + n, headers=headers)
    if "transactional.id" in settings:
        if settings["client.id"] == "aborts":
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    assert producer.flush(30) == 0


def test_raw_rows_are_what_librdkafka_reads_also_of_transactions(kafka: KafkaProcess, topic: str) -> None:
    made(kafka, topic)
    send(kafka, topic, range(100))
    send(kafka, topic, range(100, 140), **{"transactional.id": f"{topic}-a", "client.id": "commits"})
    send(kafka, topic, range(140, 180), **{"transactional.id": f"{topic}-b", "client.id": "aborts"})
    found = all_rows(batch_reader(words(kafka, topic, minPartitions=5)))
    theirs = sorted(read_all(kafka.address, topic), key=lambda one: (one.partition(), one.offset()))
    assert len(theirs) == 140
    assert [
        (*address(row), row["key"], row["value"], [(one["key"], one["value"]) for one in row["headers"]], row["timestampType"])
        for row in found
    ] == [(one.partition(), one.offset(), one.key(), one.value(), one.headers(), 0) for one in theirs]
    late = GreaterThanOrEqual(("timestamp",), instant_of(MAY_2015_MS + 120))
    pushed = all_rows(batch_reader(words(kafka, topic, filterPushdown="true"), late))
    assert [row["value"] for row in pushed] == [row["value"] for row in found if row["timestamp"] >= late.value]


def test_the_brokers_own_time_is_told_by_its_type(kafka: KafkaProcess, topic: str) -> None:
    made(kafka, topic, 1, **{"message.timestamp.type": "LogAppendTime"})
    send(kafka, topic, range(3), 1)
    theirs = [one.timestamp() for one in read_all(kafka.address, topic)]
    found = all_rows(batch_reader(words(kafka, topic)))
    assert [row["timestampType"] for row in found] == [1, 1, 1]
    assert [row["timestamp"] for row in found] == [instant_of(ms) for _, ms in theirs]


def test_a_stream_counts_records_and_names_what_was_deleted(kafka: KafkaProcess, topic: str) -> None:
    admin = made(kafka, topic)
    send(kafka, topic, range(100))
    strict = Stream(words(kafka, topic, startingOffsets="earliest", maxOffsetsPerTrigger=30))
    lax = Stream(words(kafka, topic, startingOffsets="earliest", maxBytesPerTrigger=1_000, failOnDataLoss="false"))
    assert len(strict.trigger()) == 30
    assert 1 <= len(lax.trigger()) <= 50
    begun = {stream: stream.at[topic]["0"] for stream in (strict, lax)}
    for done in admin.delete_records([TopicPartition(topic, 0, 40)]).values():
        done.result(30)
    with pytest.raises(OffsetsLost, match=rf"{topic}-0 offsets {begun[strict]} to 40 "):
        strict.reader.latestOffset(strict.at, ReadAllAvailable())
    rest = lax.all()
    told = [end[":lost"] for _, end in lax.planned if ":lost" in end]
    assert [(one["0"]["from"], one["0"]["to"]) for one in told] == [(begun[lax], 40)]
    assert [row["offset"] for row in rest if row["partition"] == 0] == list(range(40, 50))


def test_a_topic_made_anew_is_told_from_the_old_one(kafka: KafkaProcess, topic: str) -> None:
    admin = made(kafka, topic, 1)
    send(kafka, topic, range(20), 1)
    stream = Stream(words(kafka, topic, startingOffsets="earliest"))
    assert len(stream.all()) == 20
    admin.delete_topics([topic])[topic].result(30)
    made(kafka, topic, 1)
    send(kafka, topic, range(30), 1)
    with pytest.raises(OffsetsLost, match="created again"):
        stream.reader.latestOffset(stream.at, ReadAllAvailable())
