"""Our client against our broker, with other projects' clients as witnesses."""

import threading
import time
import uuid
from itertools import pairwise

import confluent_kafka
import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.errors import BrokerError, OffsetOutOfRange
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.fetcher import Fetcher
from headrace.client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.client.producer.delivery import Delivery
from headrace.client.producer.producer import Producer
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import Record, iter_records
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    assert create_topic(cluster, name, 3)
    return name


def _read_all(cluster: Cluster, topic: str) -> dict[int, list[Record]]:
    return {
        partition: [record for _, batch in read_range(cluster, topic, partition, 0, 1 << 62) for record in iter_records(batch)]
        for partition in cluster.partitions(topic)
    }


def _values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for records in _read_all(cluster, topic).values() for record in records]


def test_creating_a_topic_twice_makes_it_once(cluster: Cluster) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    assert create_topic(cluster, name, 2, {"retention.ms": "-1"})
    assert not create_topic(cluster, name, 5)
    assert cluster.partitions(name) == [0, 1]
    assert name in cluster.topics()


def test_a_topic_that_cannot_be_is_refused_with_the_brokers_reason(cluster: Cluster) -> None:
    with pytest.raises(BrokerError, match="CreateTopics of 'no good!'"):
        create_topic(cluster, "no good!", 1)


@pytest.mark.parametrize("codec", list(Codec))
def test_what_we_send_librdkafka_reads(broker: BrokerProcess, cluster: Cluster, topic: str, codec: Codec) -> None:
    producer = Producer(cluster, codec=codec, batch_bytes=4_000)
    for number in range(500):
        producer.send(
            topic, b"value %d" % number, key=b"%d" % (number % 7), timestamp_ms=1_000 + number, headers=[("n", b"%d" % number)]
        )
    producer.close()
    ours = sorted((r.timestamp_ms, r.key, r.value, r.headers) for records in _read_all(cluster, topic).values() for r in records)
    assert [value for _, _, value, _ in ours] == [b"value %d" % number for number in range(500)]

    rdkafka = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": "none", "enable.auto.commit": False})
    rdkafka.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(3)])
    read: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]] = []

    def librdkafka_has_all() -> bool:
        for message in rdkafka.consume(500, timeout=0.2):
            assert message.error() is None
            read.append((message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ())))
        return len(read) >= 500

    eventually(librdkafka_has_all, what="librdkafka reads 500 records")
    rdkafka.close()
    assert sorted(read) == ours


def test_what_we_send_kafka_python_reads(broker: BrokerProcess, cluster: Cluster, topic: str) -> None:
    producer = Producer(cluster, codec=Codec.GZIP, batch_bytes=4_000)
    for number in range(500):
        producer.send(topic, b"value %d" % number, key=b"k", timestamp_ms=number, headers=[("n", b"%d" % number)])
    producer.close()
    theirs = KafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest", enable_auto_commit=False)
    theirs.assign([KafkaTopicPartition(topic, partition) for partition in range(3)])
    seen: list[tuple[int, bytes, bytes, tuple[tuple[str, bytes], ...]]] = []

    def has_all() -> bool:
        for records in theirs.poll(timeout_ms=200).values():
            seen.extend((r.timestamp, r.key, r.value, tuple(r.headers)) for r in records)
        return len(seen) >= 500

    eventually(has_all, what="kafka-python reads 500 records")
    theirs.close()
    assert sorted(seen) == [(number, b"k", b"value %d" % number, (("n", b"%d" % number),)) for number in range(500)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_other_clients_send_we_read(broker: BrokerProcess, cluster: Cluster, topic: str, codec: str) -> None:
    rdkafka = confluent_kafka.Producer({"bootstrap.servers": broker.address, "compression.type": codec})
    for number in range(300):
        rdkafka.produce(topic, b"rd %d" % number, partition=number % 3, timestamp=5_000 + number)
    assert rdkafka.flush(20) == 0
    # kafka-python has no library for the other codecs; librdkafka has.
    theirs = KafkaProducer(bootstrap_servers=broker.address, compression_type="gzip" if codec == "gzip" else None)
    for number in range(300):
        theirs.send(topic, b"kp %d" % number, partition=number % 3)
    theirs.flush(20)
    theirs.close()
    assert sorted(value or b"" for value in _values(cluster, topic)) == sorted(
        b"%s %d" % (who, number) for who in (b"rd", b"kp") for number in range(300)
    )


def test_offsets_by_time_and_ranges_from_any_offset(cluster: Cluster, topic: str) -> None:
    producer = Producer(cluster, batch_bytes=500)
    for number in range(200):
        producer.send(topic, b"%d" % number, partition=1, timestamp_ms=1_000 * number)
    producer.close()
    fetcher = Fetcher(cluster)
    name = TopicPartition(topic, 1)
    records = _read_all(cluster, topic)[1]
    end = log_offsets(cluster, {name: LATEST})[name]
    assert log_offsets(cluster, {name: EARLIEST})[name] == 0
    assert log_offsets(cluster, {name: 5_000_000})[name] == end
    at = log_offsets(cluster, {name: 100_000})[name]
    assert at <= records[100].offset
    after = [r for _, batch in read_range(cluster, topic, 1, at, end) for r in iter_records(batch) if r.timestamp_ms >= 100_000]
    assert [record.value for record in after] == [b"%d" % number for number in range(100, 200)]
    cuts = [0, 1, 59, 60, 61, records[3].offset, records[3].offset + 1, end // 3, end // 2, end - 1, end]
    read = [
        record.value
        for start, stop in pairwise(sorted(set(cuts)))
        for _, batch in read_range(cluster, topic, 1, start, stop)
        for record in iter_records(batch)
        if start <= record.offset < stop
    ]
    assert read == [b"%d" % number for number in range(200)]
    with pytest.raises(OffsetOutOfRange, match="the log begins at 0"):
        fetcher.fetch({name: end + 1_000_000})
    fetcher.close()


def test_a_fetch_at_the_end_waits_for_what_comes(cluster: Cluster, topic: str) -> None:
    producer = Producer(cluster, linger_ms=0)
    threading.Timer(0.2, producer.send, (topic, b"late"), {"partition": 0, "timestamp_ms": 1}).start()
    fetched = Fetcher(cluster, max_wait_ms=10_000).fetch({TopicPartition(topic, 0): 0})
    assert [record.value for one in fetched for _, batch in one.batches for record in iter_records(batch)] == [b"late"]
    producer.close()


def test_deliveries_tell_where_each_batch_is(cluster: Cluster, topic: str) -> None:
    told: list[Delivery] = []
    producer = Producer(cluster, on_delivery=told.append, window_ms=600_000)
    for number in range(100):
        producer.send(topic, b"%d" % number, timestamp_ms=number * 60_000)
    producer.close()
    placed = {(partition, r.offset) for partition, records in _read_all(cluster, topic).items() for r in records}
    assert sum(one.record_count for one in told) == 100
    assert all((one.partition, one.base_offset) in placed for one in told)
    assert all(one.first_timestamp_ms // 600_000 == one.max_timestamp_ms // 600_000 for one in told)


def test_kill_minus_nine_of_the_broker_while_sending_loses_and_doubles_nothing(
    broker: BrokerProcess, cluster: Cluster, topic: str
) -> None:
    acknowledged: list[int] = []
    producer = Producer(
        cluster, batch_bytes=2_000, on_delivery=lambda one: acknowledged.append(0 if one.error else one.record_count)
    )
    sent = 0
    for kill in range(3):
        until = time.monotonic() + 0.5
        held_at_kill = 0
        while time.monotonic() < until or sum(acknowledged) <= 1_000 * kill:
            producer.send(topic, b"%d" % sent, partition=sent % 3, timestamp_ms=sent)
            sent += 1
            if sent % 50 == 0:
                time.sleep(0.002)
        held_at_kill = producer.held_records
        broker.kill()
        assert held_at_kill, "the kill must land while something is under way"
        for _ in range(100):
            producer.send(topic, b"%d" % sent, partition=sent % 3, timestamp_ms=sent)
            sent += 1
        broker.launch()
    producer.flush(timeout_ms=60_000)
    producer.close()
    assert sum(acknowledged) == sent
    broker.await_ready()
    for partition, records in _read_all(cluster, topic).items():
        assert [record.value for record in records] == [b"%d" % number for number in range(partition, sent, 3)]


def test_a_new_producer_after_a_kill_is_never_taken_for_an_old_one(broker: BrokerProcess, cluster: Cluster, topic: str) -> None:
    ids = set()
    for turn in range(3):
        producer = Producer(cluster)
        producer.send(topic, b"turn %d" % turn, partition=0, timestamp_ms=turn)
        producer.flush(timeout_ms=30_000)
        ids.add(producer.producer_id)
        broker.kill()
        broker.start()
        producer.send(topic, b"after %d" % turn, partition=0, timestamp_ms=turn)
        producer.close()
    assert len(ids) == 3
    assert [record.value for record in _read_all(cluster, topic)[0]] == [
        b"%s %d" % (word, turn) for turn in range(3) for word in (b"turn", b"after")
    ]
