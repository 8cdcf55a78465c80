"""Topics that stamp records with the broker's time (`message.timestamp.type=LogAppendTime`): confluent-kafka and kafka-python
create, write and read them. A real broker process and a real ZooKeeper.
"""

import time
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

from tests.support.broker import BrokerProcess

CREATED_MS = 1_000_000_000_000
"""The producers' timestamp, long ago."""
SETTING = "message.timestamp.type"


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


@pytest.fixture
def stamped(admin: AdminClient, topic: str) -> str:
    """A topic made with the setting."""
    admin.create_topics([NewTopic(topic, 1, 1, config={SETTING: "LogAppendTime"})])[topic].result(20)
    return topic


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def change(admin: AdminClient, topic: str, **settings: str) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(20)


def written(broker: BrokerProcess, topic: str, codec: str) -> list[Any]:
    """Write three records and return them as in their delivery reports."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "compression.codec": codec, "linger.ms": 20, "enable.idempotence": True}
    )
    delivered: list[Any] = []

    def told(error: object, message: Any) -> None:
        delivered.append(error or message)

    for number in range(3):
        producer.produce(topic, b"%d" % number * 100, partition=0, timestamp=CREATED_MS, on_delivery=told)
    assert producer.flush(20) == 0
    return delivered


def read(broker: BrokerProcess, topic: str, count: int) -> list[Any]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": topic, "check.crcs": True})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    try:
        return consumer.consume(count, timeout=20)
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_confluent_kafka_sees_when_the_broker_took_a_record_in_each_codec(
    broker: BrokerProcess, stamped: str, codec: str
) -> None:
    begun_ms = now_ms()
    reports = written(broker, stamped, codec)
    ended_ms = now_ms()
    messages = read(broker, stamped, 3)
    assert [message.value() for message in messages] == [b"%d" % number * 100 for number in range(3)]
    for message, report in zip(messages, reports, strict=True):
        kind, timestamp_ms = message.timestamp()
        assert kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
        assert begun_ms <= timestamp_ms <= ended_ms
        assert report.timestamp() == message.timestamp(), "the producer is told the same"


def test_confluent_kafka_finds_offsets_by_append_time(broker: BrokerProcess, stamped: str) -> None:
    begun_ms = now_ms()
    first = written(broker, stamped, "none")[0]
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": stamped})

    def found(timestamp_ms: int) -> int:
        (place,) = consumer.offsets_for_times([confluent_kafka.TopicPartition(stamped, 0, timestamp_ms)], timeout=20)
        return int(place.offset)

    assert found(CREATED_MS) == found(begun_ms) == found(first.timestamp()[1]) == first.offset()
    assert found(now_ms() + 60_000) == confluent_kafka.OFFSET_END
    consumer.close()


def test_confluent_kafka_turns_it_on_and_off_and_reads_back_what_is_set(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    for value in ("LogAppendTime", "CreateTime", "LogAppendTime"):
        change(admin, topic, **{SETTING: value})
        assert admin.describe_configs([resource])[resource].result(20)[SETTING].value == value
        written(broker, topic, "none")
    kinds = [message.timestamp()[0] for message in read(broker, topic, 9)]
    assert (
        kinds
        == [confluent_kafka.TIMESTAMP_LOG_APPEND_TIME] * 3
        + [confluent_kafka.TIMESTAMP_CREATE_TIME] * 3
        + [confluent_kafka.TIMESTAMP_LOG_APPEND_TIME] * 3
    )


def test_confluent_kafka_is_told_that_a_mirrored_topic_keeps_the_times_of_its_source(admin: AdminClient, topic: str) -> None:
    with pytest.raises(confluent_kafka.KafkaException, match="copy byte for byte"):
        admin.create_topics([NewTopic(topic, 1, 1, config={SETTING: "LogAppendTime", "headrace.mirror": "true"})])[topic].result(
            20
        )


def test_kafka_python_sees_when_the_broker_took_a_record(broker: BrokerProcess, stamped: str) -> None:
    begun_ms = now_ms()
    producer = KafkaProducer(bootstrap_servers=broker.address, compression_type="gzip")
    told = producer.send(stamped, b"x", timestamp_ms=CREATED_MS).get(20)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.address, consumer_timeout_ms=20_000)
    consumer.assign([KafkaPythonPartition(stamped, 0)])
    consumer.seek_to_beginning()
    record = next(consumer)
    consumer.close()
    assert record.timestamp_type == 1
    assert begun_ms <= record.timestamp <= now_ms()
    assert told.timestamp == record.timestamp
