"""How long a producer waits for acknowledgements when a broker dies, freezes or stops.

One idempotent producer (librdkafka, acks=all) sends a small message to each of some partitions every `EVERY_MS`. The pause of a
partition is the longest time between two acknowledgements that follow each other.
"""

import threading
import time
from collections.abc import Sequence

from confluent_kafka import Message, Producer

from ..harness.child import BenchFault

EVERY_MS = 25
CALM_S = 1.0
"""Before the fault: the producer has its connections, and its usual pauses are seen."""


class Pauses:
    """Sends while entered. Afterwards `by_partition` has each partition's longest pause, in milliseconds."""

    def __init__(self, bootstrap: str, topic: str, partitions: Sequence[int]) -> None:
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 120_000,
                "socket.timeout.ms": 1_000,  # a frozen broker leaves requests without an answer: by default for a minute
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "log_level": 0,
            }
        )
        self._last: dict[int, float] = {}
        self._refused: list[str] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.by_partition: dict[int, float] = {}
        self.acknowledged = 0

    def __enter__(self) -> "Pauses":
        self._thread.start()
        deadline = time.monotonic() + 60
        while len(self._last) < len(self._partitions):
            if time.monotonic() > deadline:
                self.__exit__()
                raise BenchFault(f"{len(self._last)} of {len(self._partitions)} partitions acknowledged something in a minute")
            time.sleep(0.05)
        self.by_partition.clear()  # the first connections are no pause
        time.sleep(CALM_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        if self._refused:
            raise BenchFault(f"{len(self._refused)} messages were refused, the first with: {self._refused[0]}")

    def _send(self) -> None:
        due = time.monotonic()
        while not self._ends.is_set():
            for partition in self._partitions:
                self._producer.produce(self._topic, b"x" * 100, partition=partition, on_delivery=self._delivered)
            due += EVERY_MS / 1000
            while (left := due - time.monotonic()) > 0:
                self._producer.poll(left)
            self._producer.poll(0)
        if self._producer.flush(120):
            self._refused.append("not acknowledged in two minutes")

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self._refused.append(str(error))
            return
        now, partition = time.monotonic(), message.partition()
        assert partition is not None
        before = self._last.get(partition, now)
        self._last[partition] = now
        self.acknowledged += 1
        pause_ms = 1_000 * (now - before)
        if pause_ms > self.by_partition.get(partition, 0):
            self.by_partition[partition] = pause_ms


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the sorted values are: the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
