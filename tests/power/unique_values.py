"""A producer of unique values that remembers what was acknowledged where, and a reader of all that is there. librdkafka's."""

import threading
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.processes import eventually

PACE_S = 0.002
NEVER_MS = 900_000
Record = tuple[int, str]
"""Offset and value."""


class Sending:
    """Sends to partition 0 of a topic while entered; every value is acknowledged, or may be there."""

    def __init__(self, addresses: str, topic: str, name: str) -> None:
        self.acknowledged: list[Record] = []
        """In the order in which a client learned of it."""
        self.sent: list[str] = []
        self.refused: list[str] = []
        self._topic, self._name = topic, name
        self._producer = Producer(
            {
                "bootstrap.servers": addresses,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "delivery.timeout.ms": NEVER_MS,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer {name}", daemon=True)

    def __enter__(self) -> "Sending":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._producer.poll(0.5)  # what the brokers have said before is known
        self._producer.purge()
        self._producer.flush(10)

    def finish(self) -> None:
        """Send no more, and wait until all is answered."""
        self._end()
        assert self._producer.flush(90) == 0, f"{self._name}: values are never answered"
        assert not self.refused, self.refused[:5]

    def _end(self) -> None:
        self._is_over.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._is_over.wait(PACE_S):
            value = f"{self._name}.{len(self.sent)}"
            try:
                self._producer.produce(self._topic, value.encode(), partition=0, on_delivery=self._delivered)
                self.sent.append(value)
            except BufferError:
                self._producer.poll(0.1)
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.acknowledged.append((message.offset(), message.value().decode()))
        elif error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            self.refused.append(str(error))


def read_all(addresses: str, topic: str, begin: int = 0, until: int | None = None) -> tuple[list[Record], int]:
    """Return every record of partition 0 from `begin` on, and where they end: `until`, or the end of the log.

    Each is whole: its CRC is checked.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": addresses,
            "group.id": "reading",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, begin)])
    records: list[Record] = []
    try:
        end = end_of(consumer, topic) if until is None else until

        def is_read() -> bool:
            records.extend(_records(consumer.consume(10_000, 0.5)))
            return bool(consumer.position([TopicPartition(topic, 0)])[0].offset >= end)

        if end > begin:
            eventually(is_read, within_ms=60_000, every_ms=0, what=f"{topic} is read to {end}")
    finally:
        consumer.close()
    return records, end


def end_of(consumer: Consumer, topic: str) -> int:
    """Return where the records that consumers may read end."""

    def asked() -> int:
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]) + 1
        except KafkaException:
            return 0

    return eventually(asked, within_ms=60_000, what=f"the end of {topic}") - 1


def _records(messages: list[Any]) -> Iterator[Record]:
    for message in messages:
        error = message.error()
        if error is None:
            yield message.offset(), message.value().decode()
        else:
            raise KafkaException(error)
