"""A short life of real clients: confluent-kafka and kafka-python, all codecs, a group, admin calls. For recording."""

import contextlib
import uuid

import kafka
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka.errors import KafkaError

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def live(bootstrap: str) -> str:
    """Use most requests once through `bootstrap`; return the topic."""
    topic = f"fuzzed-{uuid.uuid4().hex[:8]}"
    _confluent(bootstrap, topic)
    _kafka_python(bootstrap, topic)
    return topic


def _confluent(bootstrap: str, topic: str) -> None:
    at = {"bootstrap.servers": bootstrap}
    admin = AdminClient(at)
    admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "86400000"})])[topic].result(20)
    for resource in admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values():
        resource.result(20)
    for codec in CODECS:
        producer = Producer({**at, "compression.type": codec, "enable.idempotence": codec == "lz4"})
        for number in range(20):
            producer.produce(topic, key=str(number), value=b"value" * number, headers={"h": b"1"}, partition=number % 2)
        producer.flush(20)
    consumer = Consumer({**at, "group.id": topic, "auto.offset.reset": "earliest", "session.timeout.ms": 6_000})
    consumer.subscribe([topic])
    got = 0
    while got < 100:
        got += sum(1 for message in consumer.consume(100, timeout=1) if message.error() is None)
    consumer.commit(asynchronous=False)
    consumer.close()


def _kafka_python(bootstrap: str, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(10):
        producer.send(topic, value=b"v" * number, key=None, headers=[("h", b"2")])
    producer.flush(20)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=f"{topic}-k", auto_offset_reset="earliest")
    got = 0
    while got < 100:
        got += sum(len(found) for found in consumer.poll(1_000).values())
    consumer.commit()
    consumer.close()
    with contextlib.suppress(KafkaError):
        admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.close()
