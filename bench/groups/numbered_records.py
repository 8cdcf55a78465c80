"""Records that carry their numbers, written in a steady stream by librdkafka while a group moves its partitions."""

import threading
from typing import Self

from confluent_kafka import KafkaError, Message, Producer


class NumberedRecords:
    """Writes to a topic's partitions in turn while entered; on leaving, all are acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, per_s: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 2})
        self._topic, self._partitions, self._per_s = topic, partitions, per_s
        self.written: set[str] = set()
        """The values that were acknowledged."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(30)
        if left:
            raise RuntimeError(f"{left} records were not acknowledged within 30 s")

    def _write(self) -> None:
        number = 0
        while not self._stop.wait(0.1):
            for _ in range(max(1, self._per_s // 10)):
                value = f"{number:08d}"
                self._producer.produce(self._topic, value.encode(), partition=number % self._partitions, on_delivery=self._note)
                number += 1
            self._producer.poll(0)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and isinstance(value, bytes):
            self.written.add(value.decode())
