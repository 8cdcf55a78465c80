"""confluent-kafka (librdkafka). Run as a module with the bootstrap address."""

import sys
import time
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from .lines import PATIENCE_S, Record, serve


class _Consumer:
    def __init__(self, consumer: Any, topic: str, begin: int) -> None:
        self._consumer = consumer
        self._topic = topic
        self._position = begin
        """Until the client has a position."""
        self._early: list[Record] = []
        """Records that arrived while it was joining."""

    def poll(self) -> list[Record]:
        found, self._early = self._early, []
        return found + self._polled()

    def await_partition(self) -> "_Consumer":
        deadline_s = time.monotonic() + PATIENCE_S
        while not self._consumer.assignment():
            self._early += self._polled()
            if time.monotonic() > deadline_s:
                raise TimeoutError("no partition assigned")
        self._position = max(0, self.committed())
        return self

    def _polled(self) -> list[Record]:
        found = []
        for message in self._consumer.consume(500, 0.1):
            if message.error():
                raise RuntimeError(message.error())
            found.append(Record(message.offset(), message.value()))
        return found

    def position(self) -> int:
        if self._early:
            return self._early[0].offset
        told: int = self._consumer.position([TopicPartition(self._topic, 0)])[0].offset
        return told if told >= 0 else self._position

    def commit(self, offset: int) -> None:
        self._consumer.commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=False)

    def committed(self) -> int:
        told: int = self._consumer.committed([TopicPartition(self._topic, 0)], timeout=10)[0].offset
        return told

    def lag(self) -> int | None:
        high: int = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=10)[1]
        return high - self.committed()

    def close(self) -> None:
        self._consumer.close()


class Confluent:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _made(self, group: str = "positions", **more: object) -> Any:
        return Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": group, "enable.auto.commit": False, "check.crcs": True, **more}
        )

    def ends(self, topic: str) -> tuple[int, int]:
        consumer = self._made()
        try:
            begin, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
            return begin, end
        finally:
            consumer.close()

    def at(self, topic: str, offset: int) -> _Consumer:
        consumer = self._made(**{"auto.offset.reset": "error"})
        consumer.assign([TopicPartition(topic, 0, offset)])
        return _Consumer(consumer, topic, offset)

    def member(self, topic: str, group: str) -> _Consumer:
        consumer = self._made(group, **{"auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        return _Consumer(consumer, topic, 0).await_partition()


if __name__ == "__main__":
    serve(Confluent(sys.argv[1]))
