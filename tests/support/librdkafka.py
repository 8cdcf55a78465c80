"""Whole topics, read by librdkafka, an independent client."""

from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition


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
