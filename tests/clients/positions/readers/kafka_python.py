"""kafka-python. Run as a module with the bootstrap address."""

import sys
import time
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from .lines import PATIENCE_S, Record, serve


class _Consumer:
    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._partition = TopicPartition(topic, 0)
        self._early: list[Record] = []
        """Records that arrived while it was joining."""

    def poll(self) -> list[Record]:
        found, self._early = self._early, []
        return found + self._polled()

    def await_partition(self) -> "_Consumer":
        deadline_s = time.monotonic() + PATIENCE_S / 2
        while not self._consumer.assignment():
            self._early += self._polled()
            if time.monotonic() > deadline_s:
                raise TimeoutError("no partition assigned")
        return self

    def _polled(self) -> list[Record]:
        return [Record(one.offset, one.value) for found in self._consumer.poll(100).values() for one in found]

    def position(self) -> int:
        return self._early[0].offset if self._early else int(self._consumer.position(self._partition))

    def commit(self, offset: int) -> None:
        self._consumer.commit({self._partition: OffsetAndMetadata(offset, "", -1)})

    def committed(self) -> int:
        told: int = self._consumer.committed(self._partition)
        return told

    def lag(self) -> int | None:
        end: int = self._consumer.end_offsets([self._partition])[self._partition]
        return end - self.committed()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _made(self, group: str | None = None, reset: str = "none") -> Any:
        # Sometimes a closed member is not seen to leave, by Apache Kafka neither: this is how long to wait for it then.
        return KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset=reset,
            check_crcs=True,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
        )

    def ends(self, topic: str) -> tuple[int, int]:
        consumer, partition = self._made(), TopicPartition(topic, 0)
        try:
            return consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition]
        finally:
            consumer.close()

    def at(self, topic: str, offset: int) -> _Consumer:
        consumer, partition = self._made(), TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        return _Consumer(consumer, topic)

    def member(self, topic: str, group: str) -> _Consumer:
        """Return a consumer that has joined. Sometimes kafka-python 3.0 does not finish joining, with Apache Kafka neither; a
        second consumer does.
        """
        for is_last in (False, True):
            consumer = self._made(group, "earliest")
            consumer.subscribe([topic])
            try:
                return _Consumer(consumer, topic).await_partition()
            except TimeoutError:
                consumer.close(autocommit=False)
                if is_last:
                    raise
        raise AssertionError("unreachable")


if __name__ == "__main__":
    serve(KafkaPython(sys.argv[1]))
