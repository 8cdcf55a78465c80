"""Other projects' clients: confluent-kafka (librdkafka) and kafka-python, against a real broker process and a real ZooKeeper."""

import time
from collections.abc import Sequence
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as KafkaPythonTopic
from kafka.errors import KafkaError

from tests.support.broker import BrokerProcess

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
Row = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]
"""Key, value, timestamp, headers."""

ROWS: list[Row] = [
    (b"key", b"value", 1_700_000_000_000, []),
    (None, b"no key", 1_700_000_000_001, [("a", b"1"), ("a", b"2"), ("empty", b"")]),
    (b"no value", None, 1_500_000_000_000, [("trace", b"\x00\xff")]),
    (b"", b"", 1_700_000_000_002, []),
    (b"large", b"x" * 900_000, 1_700_000_000_003, []),
]


# -- confluent-kafka ----------------------------------------


def confluent_produce(broker: BrokerProcess, topic: str, rows: Sequence[Row], **config: Any) -> list[int]:
    """Produce rows to partition 0 and return their offsets."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "message.max.bytes": 1_500_000, "linger.ms": 5, **config}
    )
    offsets: list[int] = []
    errors: list[object] = []

    def delivered(error: object, message: Any) -> None:
        errors.append(error) if error else offsets.append(message.offset())

    for key, value, timestamp_ms, headers in rows:
        producer.produce(topic, value, key, partition=0, timestamp=timestamp_ms, headers=headers, on_delivery=delivered)
    assert producer.flush(20) == 0
    assert errors == []
    return offsets


def confluent_read(broker: BrokerProcess, topic: str, offset: int = confluent_kafka.OFFSET_BEGINNING, **config: Any) -> list[Any]:
    """Return partition 0's messages from `offset` to the end-of-partition event."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.address, "group.id": "test", "enable.partition.eof": True, "check.crcs": True, **config}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
    messages = []
    deadline = time.monotonic() + 20
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                return messages
            messages.append(message)
    finally:
        consumer.close()
    raise AssertionError(f"no end of partition after {len(messages)} messages")


def confluent_rows(messages: Sequence[Any]) -> list[Row]:
    return [(m.key(), m.value(), m.timestamp()[1], list(m.headers() or [])) for m in messages]


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_writes_and_reads_everything_in_each_codec(
    broker: BrokerProcess, topic: str, codec: str, idempotent: bool
) -> None:
    offsets = confluent_produce(broker, topic, ROWS, **{"compression.type": codec, "enable.idempotence": idempotent})
    messages = confluent_read(broker, topic)
    assert confluent_rows(messages) == ROWS
    assert sorted(message.offset() for message in messages) == sorted(offsets)


def test_confluent_kafka_with_acks_0_delivers_in_order(broker: BrokerProcess, topic: str) -> None:
    rows: list[Row] = [(None, b"%d" % number, 1_700_000_000_000, []) for number in range(500)]
    confluent_produce(broker, topic, rows[:1])
    confluent_produce(broker, topic, rows[1:], acks=0)
    assert [message.value() for message in confluent_read(broker, topic)] == [value for _, value, _, _ in rows]


def test_confluent_kafka_seeks_to_every_offset_in_a_batch_and_to_those_in_the_gap_in_front_of_it(
    broker: BrokerProcess, topic: str
) -> None:
    rows: list[Row] = [(None, b"%d" % number, 1_700_000_000_000 + number, []) for number in range(10)]
    first = confluent_produce(broker, topic, rows[:5], **{"linger.ms": 200})
    second = confluent_produce(broker, topic, rows[5:], **{"linger.ms": 200})
    assert first == list(range(first[0], first[0] + 5))
    assert second[0] > first[-1] + 1, "a gap"
    for offset in (1, first[1], first[4], first[4] + 1, second[0] - 1, second[2]):
        expected = [value for at, (_, value, _, _) in zip(first + second, rows, strict=True) if at >= offset]
        assert [message.value() for message in confluent_read(broker, topic, offset)] == expected


def test_confluent_kafka_finds_offsets_by_time_and_ends(broker: BrokerProcess, topic: str) -> None:
    rows: list[Row] = [(None, b"%d" % number, 1_700_000_000_000 + 1_000 * number, []) for number in range(6)]
    offsets = [confluent_produce(broker, topic, [row])[0] for row in rows]
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": "test"})
    try:
        low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=10)
        assert low == 0
        assert high > offsets[-1]
        asked = [confluent_kafka.TopicPartition(topic, 0, 1_700_000_000_000 + ms) for ms in (0, 2_500, 5_000, 5_001)]
        found = [consumer.offsets_for_times([one], timeout=10)[0].offset for one in asked]
        assert found == [offsets[0], offsets[3], offsets[5], confluent_kafka.OFFSET_END]
    finally:
        consumer.close()
    assert confluent_read(broker, topic, high) == []
    assert confluent_read(broker, topic, confluent_kafka.OFFSET_END) == []


def test_confluent_kafka_commits_and_reads_back_its_offsets(broker: BrokerProcess, topic: str) -> None:
    confluent_produce(broker, topic, ROWS[:1])
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": f"group-of-{topic}"})
    try:
        consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 17)], asynchronous=False)
        asked = [confluent_kafka.TopicPartition(topic, partition) for partition in (0, 1)]
        found = consumer.committed(asked, timeout=10)
        assert [one.offset for one in found] == [17, confluent_kafka.OFFSET_INVALID]
    finally:
        consumer.close()


def test_confluent_kafka_creates_describes_and_deletes_a_topic(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "1234567"})])[topic].result(10)
    assert set(admin.list_topics(topic, timeout=10).topics[topic].partitions) == {0, 1}
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(10)
    assert configs["retention.ms"].value == "1234567"
    assert configs["cleanup.policy"].value == "delete"
    with pytest.raises(confluent_kafka.KafkaException, match=r"cleanup\.policy"):
        admin.create_topics([NewTopic(f"{topic}-c", 1, 1, config={"cleanup.policy": "compact"})])[f"{topic}-c"].result(10)
    admin.delete_topics([topic])[topic].result(10)
    assert topic not in admin.list_topics(timeout=10).topics


def test_confluent_kafka_says_that_transactions_are_not_supported(broker: BrokerProcess) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": "tx"})
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        producer.init_transactions(15)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "this broker does not support transactions" in caught.value.args[0].str()


def test_confluent_kafka_is_told_when_a_message_is_too_large(broker: BrokerProcess, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "message.max.bytes": 4_000_000})
    errors: list[Any] = []
    producer.produce(topic, b"x" * 2_500_000, on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(20) == 0
    assert [error.code() for error in errors] == [confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE]


# -- kafka-python ----------------------------------------


def kafka_python_produce(broker: BrokerProcess, topic: str, rows: Sequence[Row], **config: Any) -> list[int]:
    producer = KafkaProducer(bootstrap_servers=broker.address, max_request_size=1_500_000, **config)
    try:
        futures = [
            producer.send(topic, value, key=key, partition=0, timestamp_ms=timestamp_ms, headers=headers)
            for key, value, timestamp_ms, headers in rows
        ]
        return [future.get(20).offset for future in futures]
    finally:
        producer.close()


def kafka_python_read(broker: BrokerProcess, topic: str, count: int, offset: int | None = None) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=broker.address, consumer_timeout_ms=10_000)
    try:
        place = KafkaPythonPartition(topic, 0)
        consumer.assign([place])
        if offset is None:
            consumer.seek_to_beginning(place)
        else:
            consumer.seek(place, offset)
        return [message for _, message in zip(range(count), consumer, strict=False)]
    finally:
        consumer.close()


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_writes_and_reads_everything_in_each_codec(
    broker: BrokerProcess, topic: str, codec: str, idempotent: bool
) -> None:
    config = {"compression_type": None if codec == "none" else codec, "enable_idempotence": idempotent}
    offsets = kafka_python_produce(broker, topic, ROWS, **config)
    messages = kafka_python_read(broker, topic, len(ROWS))
    assert [(m.key, m.value, m.timestamp, list(m.headers)) for m in messages] == ROWS
    assert [message.offset for message in messages] == offsets


def test_kafka_python_seeks_into_a_batch_and_into_the_gap_after_it(broker: BrokerProcess, topic: str) -> None:
    rows: list[Row] = [(None, b"%d" % number, 1_700_000_000_000, []) for number in range(6)]
    offsets = kafka_python_produce(broker, topic, rows[:3], linger_ms=200)
    offsets += kafka_python_produce(broker, topic, rows[3:], linger_ms=200)
    for offset in (1, 2, 3, offsets[3] - 1, offsets[3], offsets[4]):
        expected = [value for at, (_, value, _, _) in zip(offsets, rows, strict=True) if at >= offset]
        assert [message.value for message in kafka_python_read(broker, topic, len(expected), offset)] == expected


def test_kafka_python_knows_the_ends_and_the_times(broker: BrokerProcess, topic: str) -> None:
    rows: list[Row] = [(None, b"%d" % number, 1_700_000_000_000 + number, []) for number in range(3)]
    offsets = [kafka_python_produce(broker, topic, [row])[0] for row in rows]
    consumer = KafkaConsumer(bootstrap_servers=broker.address)
    try:
        place = KafkaPythonPartition(topic, 0)
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place])[place] > offsets[-1]
        assert consumer.offsets_for_times({place: 1_700_000_000_001})[place].offset == offsets[1]
        assert consumer.offsets_for_times({place: 1_800_000_000_000}) == {place: None}
    finally:
        consumer.close()


def test_kafka_python_creates_and_deletes_a_topic(broker: BrokerProcess, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        admin.create_topics([KafkaPythonTopic(topic, 2, 1)])
        assert topic in admin.list_topics()
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()
    finally:
        admin.close()


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_kafka_python_delivers_in_order_with_every_kind_of_acknowledgement(
    broker: BrokerProcess, topic: str, acks: int | str
) -> None:
    rows: list[Row] = [(None, b"%d" % number, 1_700_000_000_000, []) for number in range(200)]
    kafka_python_produce(broker, topic, rows, acks=acks, enable_idempotence=False)
    assert [message.value for message in kafka_python_read(broker, topic, len(rows))] == [value for _, value, _, _ in rows]


def test_kafka_python_says_that_transactions_are_not_supported(broker: BrokerProcess) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.address, transactional_id="tx", max_block_ms=15_000)
    try:
        with pytest.raises(KafkaError, match="UnsupportedVersionError"):
            producer.init_transactions()
    finally:
        producer.close(timeout=1)


# -- together ----------------------------------------


def test_what_one_client_writes_the_other_reads(broker: BrokerProcess, topic: str) -> None:
    confluent_produce(broker, topic, ROWS[:2], **{"compression.type": "zstd"})
    kafka_python_produce(broker, topic, ROWS[2:], compression_type="gzip")
    assert confluent_rows(confluent_read(broker, topic)) == ROWS
    messages = kafka_python_read(broker, topic, len(ROWS))
    assert [(m.key, m.value, m.timestamp, list(m.headers)) for m in messages] == ROWS


def test_many_equal_records_that_compress_to_fewer_bytes_than_records_are_all_read(broker: BrokerProcess, topic: str) -> None:
    rows: list[Row] = [(None, b"20 equal bytes here.", 1_700_000_000_000, [])] * 9_000
    confluent_produce(broker, topic, rows, **{"compression.type": "zstd", "linger.ms": 500, "batch.num.messages": 3_000})
    messages = confluent_read(broker, topic)
    assert len(messages) == 9_000
    assert len({message.offset() for message in messages}) == 9_000
    assert len(kafka_python_read(broker, topic, 9_000)) == 9_000
