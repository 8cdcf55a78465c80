"""Everything that a producer holds: each partition's queue, and the records whose topic's partitions are not known yet. Pure but
for one random choice.

Decides the partition of a record, when a batch is closed and when it is due. Sends nothing and reads no clock. The caller holds a
lock around every call.
"""

import random
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from .partitioner import partition_for_key
from .pending import PartitionQueue, PendingBatch, PendingRecord

UNASSIGNED = -1
"""The partition of a record that was given up before one was chosen."""


class _Waiting(NamedTuple):
    record: PendingRecord
    size_bytes: int
    since_ms: int
    generation: int


class Accumulator:
    """Takes records, returns batches."""

    def __init__(
        self, *, batch_bytes: int, linger_ms: int, window_ms: int | None, random_source: random.Random | None = None
    ) -> None:
        self.batch_bytes = batch_bytes
        self.linger_ms = linger_ms
        self.window_ms = window_ms
        self._random = random_source or random.Random()
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._busy: dict[tuple[str, int], PartitionQueue] = {}
        """Those of `_queues` that hold a batch: the only ones that the sender walks through."""
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._partitions: dict[str, Sequence[int]] = {}
        self._sticky: dict[str, int] = {}
        """The partition of the next record without a key; chosen anew for each batch."""
        self._flushed = -1

    @property
    def is_empty(self) -> bool:
        return not self._busy and not self._waiting

    def add(
        self, topic: str, partition: int | None, record: PendingRecord, *, size_bytes: int, now_ms: int, generation: int = 0
    ) -> bool:
        """Take a record. Return whether the sender has work: a batch was opened or closed, or a topic's partitions are needed."""
        if partition is None:
            known = self._partitions.get(topic)
            if known is None or topic in self._waiting:
                waiting = self._waiting.setdefault(topic, deque())
                waiting.append(_Waiting(record, size_bytes, now_ms, generation))
                return len(waiting) == 1
            partition = self._choose(topic, known, record, size_bytes, generation)
        return self._append(topic, partition, record, size_bytes, now_ms, generation)

    def topics_waited_for(self) -> list[str]:
        """Return the topics whose partitions are needed before their records can be queued."""
        return list(self._waiting)

    def learn(self, topic: str, partitions: Sequence[int]) -> None:
        """Store a topic's partitions, and queue the records that waited for them."""
        self._partitions[topic] = partitions
        for record, size_bytes, since_ms, generation in self._waiting.pop(topic, ()):
            partition = self._choose(topic, partitions, record, size_bytes, generation)
            self._append(topic, partition, record, size_bytes, since_ms, generation)
        self._close_flushed()

    def flush(self, generation: int) -> None:
        """Make this generation and earlier ones due without lingering. Later records belong to a later generation."""
        self._flushed = generation
        self._close_flushed()

    def due(self, now_ms: int) -> list[PartitionQueue]:
        """Return the partitions whose first batch may be sent now, the longest waiting first."""
        found: list[tuple[int, PartitionQueue]] = []
        for queue in self._busy.values():
            due_ms = queue.due_ms(self.linger_ms)
            if due_ms is not None and due_ms <= now_ms:
                first = queue.closed[0] if queue.closed else queue.open
                found.append((first.opened_ms if first is not None else 0, queue))
        found.sort(key=lambda pair: pair[0])
        return [queue for _, queue in found]

    def next_due_ms(self, after_ms: int) -> int | None:
        """Return when the next partition becomes due, after `after_ms` (monotonic); None if time alone makes none due."""
        times = (queue.due_ms(self.linger_ms) for queue in self._busy.values())
        return min((time for time in times if time is not None and time > after_ms), default=None)

    def take(self, queue: PartitionQueue) -> PendingBatch:
        """Return the partition's first batch, now in flight."""
        if not queue.closed:
            self._close(queue)
        return queue.take()

    def expire(self, opened_before_ms: int) -> list[PendingBatch]:
        """Remove and return the batches opened before then, except those in flight: their response is still awaited."""
        return self._give_up(opened_before_ms)

    def give_up_all(self) -> list[PendingBatch]:
        """Remove and return every batch, in flight or not."""
        for queue in self._busy.values():
            queue.in_flight = None
        return self._give_up(None)

    def give_up_waiting(self, topic: str, opened_before_ms: int | None = None) -> list[PendingBatch]:
        """Remove a topic's records that have no partition yet. Return them as batches of partition `UNASSIGNED`, one for each
        window and flush.
        """
        waiting = self._waiting.pop(topic, deque())
        groups: dict[tuple[int | None, int], PendingBatch] = {}
        while waiting and (opened_before_ms is None or waiting[0].since_ms < opened_before_ms):
            record, size_bytes, since_ms, generation = waiting.popleft()
            window = self._window(record)
            batch = groups.get((window, generation))
            if batch is None:
                batch = groups[window, generation] = PendingBatch(
                    topic=topic, partition=UNASSIGNED, opened_ms=since_ms, generation=generation, window=window
                )
            batch.append(record, size_bytes)
        if waiting:
            self._waiting[topic] = waiting
        return list(groups.values())

    def settle(self) -> None:
        """Remove empty queues from the sender's walk."""
        for name in [name for name, queue in self._busy.items() if queue.is_empty]:
            del self._busy[name]

    def _close_flushed(self) -> None:
        for queue in self._busy.values():
            if queue.open is not None and queue.open.generation <= self._flushed:
                self._close(queue)

    def _choose(self, topic: str, partitions: Sequence[int], record: PendingRecord, size_bytes: int, generation: int) -> int:
        key = record[1]
        if key is not None:
            return partitions[partition_for_key(key, len(partitions))]
        sticky = self._sticky.get(topic)
        if sticky is not None:
            queue = self._queues[topic, sticky]
            if queue.open is None or self._takes(queue.open, record, size_bytes, generation):
                return sticky
            # Close first, then choose. In the other order this record would open a batch there that no other record joins.
            self._close(queue)
        sticky = self._sticky[topic] = self._random.choice(partitions)
        return sticky

    def _takes(self, batch: PendingBatch, record: PendingRecord, size_bytes: int, generation: int) -> bool:
        return (
            batch.size_bytes + size_bytes <= self.batch_bytes
            and batch.generation == generation
            and batch.window == self._window(record)
        )

    def _append(self, topic: str, partition: int, record: PendingRecord, size_bytes: int, now_ms: int, generation: int) -> bool:
        name = (topic, partition)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = PartitionQueue(topic, partition)
        batch = queue.open
        if batch is not None and not self._takes(batch, record, size_bytes, generation):
            self._close(queue)
            batch = None
        is_new = batch is None
        if batch is None:
            batch = queue.open = PendingBatch(
                topic=topic, partition=partition, opened_ms=now_ms, generation=generation, window=self._window(record)
            )
            self._busy[name] = queue
        batch.append(record, size_bytes)
        return is_new

    def _close(self, queue: PartitionQueue) -> None:
        if queue.close_open() and self._sticky.get(queue.topic) == queue.partition:
            del self._sticky[queue.topic]

    def _window(self, record: PendingRecord) -> int | None:
        return None if self.window_ms is None else record[0] // self.window_ms

    def _give_up(self, opened_before_ms: int | None) -> list[PendingBatch]:
        given_up: list[PendingBatch] = []
        for queue in self._busy.values():
            for batch in queue.batches():
                if batch is queue.in_flight or (opened_before_ms is not None and batch.opened_ms >= opened_before_ms):
                    continue
                if batch is queue.open:
                    self._close(queue)
                queue.give_up(batch)
                given_up.append(batch)
        for topic in list(self._waiting):
            given_up += self.give_up_waiting(topic, opened_before_ms)
        self.settle()
        return given_up
