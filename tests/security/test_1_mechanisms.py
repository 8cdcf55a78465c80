"""Each listener and mechanism: what our producer sent, librdkafka reads, and the other way round, over the same listener."""

import time
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import Producer as LibrdkafkaProducer

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.read_range import read_range
from headrace.client.producer.producer import Producer
from headrace.wire.batch.record_batch import iter_records
from tests.security.conftest import Config
from tests.security.secured_kafka import SecuredKafka
from tests.support.processes import eventually

WAYS = [
    *(
        (listener, one)
        for listener in ("SASLCLEAR", "SASLTLS")
        for one in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    ),
    ("TLS", None),
    ("MTLS", None),
]
RECORDS = 500
BIG = b"x" * 300_000


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_our_records_are_read_by_librdkafka_and_its_records_by_us(
    server: SecuredKafka,
    words: Callable[[str, str | None], dict[str, str]],
    written: Config,
    listener: str,
    mechanism: str | None,
) -> None:
    settings = words(listener, mechanism)
    topic = f"t-{uuid.uuid4().hex[:8]}"
    cluster = Cluster(server.address(listener), request_timeout_ms=15_000, security=written(settings))
    try:
        create_topic(cluster, topic, partitions=1)
        producer = Producer(cluster, linger_ms=5)
        ours = [b"ours-%d" % number for number in range(RECORDS)] + [BIG] * 4
        for value in ours:
            producer.send(topic, value, partition=0, timestamp_ms=time.time_ns() // 1_000_000)
        producer.flush(30_000)
        producer.close(5_000)

        theirs = [b"theirs-%d" % number for number in range(RECORDS)] + [BIG] * 4
        librdkafka = LibrdkafkaProducer({"bootstrap.servers": server.address(listener), **settings})
        for value in theirs:
            librdkafka.produce(topic, value, partition=0)
        assert librdkafka.flush(30) == 0

        assert _read_by_librdkafka(server.address(listener), settings, topic, len(ours) + len(theirs)) == ours + theirs
        batches = read_range(cluster, topic, 0, 0, len(ours) + len(theirs))
        assert [record.value for _, batch in batches for record in iter_records(batch)] == ours + theirs
    finally:
        cluster.close()


def _read_by_librdkafka(address: str, settings: dict[str, str], topic: str, count: int) -> list[bytes]:
    consumer = LibrdkafkaConsumer({"bootstrap.servers": address, "group.id": topic, "auto.offset.reset": "earliest", **settings})
    values: list[bytes] = []
    try:
        consumer.subscribe([topic])

        def all_read() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append(message.value())
            return len(values) >= count

        eventually(all_read, within_ms=60_000, every_ms=0)
    finally:
        consumer.close()
    return values
