"""Whole topics, read by librdkafka, an independent client."""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.processes import eventually


def read_all(bootstrap: str, topic: str) -> list[Any]:
    """Return every message of the topic, by assignment, to the end that each partition has now."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "oracle", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    try:
        waiting = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in waiting])
        found: list[Any] = []
        while waiting:
            message = consumer.poll(10)
            assert message is not None, f"{topic}: partitions {waiting} did not come to their ends"
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                waiting.discard(message.partition())
        return found
    finally:
        consumer.close()


def continues_through_a_killed_leader(
    words: Mapping[str, Any], topic: str, brokers: list[int], kill: Callable[[int], None]
) -> None:
    """Make a topic with a replica at each of the brokers, write to it, kill its leader, write again, and read everything.

    `words`: how a client reaches the cluster. Raises AssertionError where a record is lost, doubled or in another place.
    """
    admin = AdminClient(dict(words))
    admin.create_topics([NewTopic(topic, 1, len(brokers))])[topic].result(30)

    def in_sync() -> list[int]:
        return sorted(admin.list_topics(topic, timeout=30).topics[topic].partitions[0].isrs)

    eventually(lambda: in_sync() == brokers, within_ms=60_000, what="all replicas in sync")
    lost: list[object] = []
    producer = Producer({**words, "acks": "all", "enable.idempotence": True})

    def send(first: int) -> None:
        for number in range(first, first + 100):
            producer.produce(topic, str(number), on_delivery=lambda error, _: lost.append(error) if error else None)
        assert producer.flush(60) == 0

    send(0)
    kill(admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader)
    send(100)
    assert lost == []
    consumer = Consumer({**words, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[int] = []

    def all_read() -> bool:
        read.extend(int(one.value() or b"") for one in consumer.consume(500, timeout=0.5) if one.error() is None)
        return len(read) >= 200

    try:
        eventually(all_read, within_ms=60_000, what="every record")
    finally:
        consumer.close()
    assert read == [*range(200)]
