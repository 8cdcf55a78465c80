"""Writes to one topic of the live cluster all the time, and notes how long each event took until the offline cluster held it."""

import threading
import time
from collections import deque

from headrace.client.connection.cluster import Cluster
from headrace.client.errors import ClientError
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.producer.producer import Producer

from .world import PULSE, World

EVERY_S = 0.05
NAME = TopicPartition(PULSE, 0)


class Pulse:
    """Used in a `with` statement; `longest_s` is the longest wait, of those too that are not over."""

    def __init__(self, world: World) -> None:
        self._source = Cluster(world.live.bootstrap, client_id="bench-pulse")
        self._copy = Cluster(world.offline.bootstrap, client_id="bench-pulse")
        self._producer = Producer(self._source, linger_ms=0)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._waiting: deque[tuple[int, float]] = deque()
        self.waits: list[float] = []

    @property
    def longest_s(self) -> float:
        return max(self.waits, default=0.0)

    def __enter__(self) -> "Pulse":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(30)
        self.waits += [time.monotonic() - sent for _, sent in self._waiting]
        self._producer.close(1_000)
        self._source.close()
        self._copy.close()

    def _run(self) -> None:
        while not self._ends.wait(EVERY_S):
            try:
                self._producer.send(PULSE, b"pulse", partition=0, timestamp_ms=int(time.time() * 1000))
                self._producer.flush(10_000)
                self._waiting.append((log_offsets(self._source, {NAME: LATEST})[NAME], time.monotonic()))
                held = log_offsets(self._copy, {NAME: LATEST})[NAME]
            except ClientError:
                continue
            while self._waiting and self._waiting[0][0] <= held:
                self.waits.append(time.monotonic() - self._waiting.popleft()[1])
