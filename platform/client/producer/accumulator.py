"""Everything that a producer holds: each partition's queue, and the records whose topic's partitions are not known yet. Pure but
for one random choice.

Decides the partition of a record, when a batch is closed and when it is due; counts what is held, by batch. Sends nothing and
reads no clock. The caller holds a lock around every call.
"""

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from .partitioner import partition_for_key
from .pending import PartitionQueue, PendingBatch, PendingRecord

UNASSIGNED = -1
"""The partition of a record that was given up before one was chosen."""


MOST_KEYS = 10_000
"""Keys whose partition is remembered. With more, all are forgotten."""

_Key = TypeVar("_Key")
Partitioner = Callable[[bytes, int], int]
"""From a key and the number of partitions to one of them, from 0 on."""


class _Waiting(NamedTuple):
    record: PendingRecord
    size_bytes: int
    since_ms: int
    generation: int


class Accumulator:
    """Takes records, returns batches."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        linger_ms: int,
        window_ms: int | None,
        partitioner: Partitioner = partition_for_key,
        random_source: random.Random | None = None,
    ) -> None:
        self.batch_bytes = batch_bytes
        self.linger_ms = linger_ms
        self.window_ms = window_ms
        self._partitioner = partitioner
        self.partitioner_fault: str | None = None
        """Why the given partitioner could not be followed, the last time. The default one chose in its place."""
        self._random = random_source or random.Random()
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._busy: dict[tuple[str, int], PartitionQueue] = {}
        """Those of `_queues` that hold a batch: the only ones that the sender walks through."""
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._partitions: dict[str, Sequence[int]] = {}
        self._key_partitions: dict[tuple[bytes, int], int] = {}
        """(Key, how many partitions) → the partitioner's choice; bounded."""
        self._sticky: dict[str, int] = {}
        """The partition of the next record without a key; chosen again for each batch."""
        self.generation = 0
        """Counts flushes. A flush waits for its own and earlier generations only, however many records come meanwhile."""
        self._flushed = -1
        self.has_full = False
        """A batch was closed because a record did not fit it: it is due at once. The sender takes the mark back."""
        self.used_bytes = 0
        """What is charged for the records that are held: until `ended`."""
        self._held: Counter[int] = Counter()
        """Generation → records that wait for a partition, and those of closed batches that have not `ended`."""
        self._windows: Counter[tuple[str, int]] = Counter()
        """(Topic, window) → batches that have not `ended`, and records that wait for a partition."""

    @property
    def is_empty(self) -> bool:
        return not self._busy and not self._waiting

    def held_records(self, generation: int | None = None) -> int:
        """Return how many records are held, of this generation and earlier ones (None: of all). Never walks through records."""
        last = self.generation if generation is None else generation
        closed = sum(count for held, count in self._held.items() if held <= last)
        open_ = (queue.open for queue in self._busy.values())
        return closed + sum(batch.record_count for batch in open_ if batch is not None and batch.generation <= last)

    def first_window(self, topic: str) -> int | None:
        """Return the number of the topic's first window that has records held; None if none has."""
        return min((window for name, window in self._windows if name == topic), default=None)

    def windows_under_way(self, topic: str) -> Counter[int]:
        """Return the numbers of the topic's windows that have records held, each with how many. Walks through batches."""
        found = Counter({window: 0 for name, window in self._windows if name == topic})
        for queue in self._busy.values():
            for batch in queue.batches() if queue.topic == topic else ():
                if batch.window is not None:
                    found[batch.window] += batch.record_count
        for waiting in self._waiting.get(topic, ()):
            if (window := self._window(waiting.record)) is not None:
                found[window] += 1
        return found

    def open_batch(self, topic: str) -> PendingBatch | None:
        """Return the batch that the topic's next record without a key enters, as long as it is open and has room."""
        sticky = self._sticky.get(topic)
        return None if sticky is None else self._queues[topic, sticky].open

    def add(self, topic: str, partition: int | None, record: PendingRecord, *, size_bytes: int, now_ms: int) -> bool:
        """Take a record. Return whether the sender has work: a batch was opened or closed, or a topic's partitions are needed."""
        is_news = self._add(topic, partition, record, size_bytes, now_ms)
        self.used_bytes += size_bytes
        return is_news

    def _add(self, topic: str, partition: int | None, record: PendingRecord, size_bytes: int, now_ms: int) -> bool:
        generation = self.generation
        if partition is None:
            known = self._partitions.get(topic)
            if known is None or topic in self._waiting:
                waiting = self._waiting.setdefault(topic, deque())
                waiting.append(_Waiting(record, size_bytes, now_ms, generation))
                self._held[generation] += 1
                self._enter_window(topic, record)
                return len(waiting) == 1
            partition = self._choose(topic, known, record, size_bytes, generation)
        return self._append(topic, partition, record, size_bytes, now_ms, generation)

    def ended(self, batch: PendingBatch) -> None:
        """Count a batch as held no more: it was acknowledged, or given up, and who was to know of it knows."""
        self.used_bytes -= batch.charged_bytes
        _subtract(self._held, batch.generation, batch.record_count)
        if batch.window is not None:
            _subtract(self._windows, (batch.topic, batch.window), 1)

    def topics_waited_for(self) -> list[str]:
        """Return the topics whose partitions are needed before their records can be queued."""
        return list(self._waiting)

    def learn(self, topic: str, partitions: Sequence[int]) -> None:
        """Store a topic's partitions, and queue the records that waited for them."""
        self._partitions[topic] = partitions
        for record, size_bytes, since_ms, generation in self._waiting.pop(topic, ()):
            partition = self._choose(topic, partitions, record, size_bytes, generation)
            self._append(topic, partition, record, size_bytes, since_ms, generation)
            self._leave_waiting(topic, record, generation)
        self._close_flushed()

    def flush(self) -> int:
        """Make everything that is held due without lingering; return its generation. Later records belong to a later one."""
        self._flushed = self.generation
        self.generation += 1
        self._close_flushed()
        return self._flushed

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
                batch = self._new_batch(topic, UNASSIGNED, record, size_bytes, since_ms, generation)
                batch.is_open = False
                groups[window, generation] = batch
            else:
                batch.append(record, size_bytes)
            self._held[generation] += 1
            self._leave_waiting(topic, record, generation)
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
            return partitions[self._partition_of(key, len(partitions))]
        sticky = self._sticky.get(topic)
        if sticky is not None:
            queue = self._queues[topic, sticky]
            if queue.open is None or self._takes(queue.open, record, size_bytes, generation):
                return sticky
            # Close first, then choose. In the other order this record would open a batch there that no other record joins.
            self._close(queue)
            self.has_full = True
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
            self.has_full = True
            batch = None
        if batch is not None:
            batch.append(record, size_bytes)
            return False
        # A record that cannot be framed raises here, before anything is counted.
        queue.open = self._new_batch(topic, partition, record, size_bytes, now_ms, generation)
        self._busy[name] = queue
        return True

    def _new_batch(
        self, topic: str, partition: int, record: PendingRecord, size_bytes: int, now_ms: int, generation: int
    ) -> PendingBatch:
        window = self._window(record)
        batch = PendingBatch(topic=topic, partition=partition, opened_ms=now_ms, generation=generation, window=window)
        batch.append(record, size_bytes)
        self._enter_window(topic, record)
        return batch

    def _partition_of(self, key: bytes, count: int) -> int:
        found = self._key_partitions.get((key, count))
        if found is None:
            if len(self._key_partitions) >= MOST_KEYS:
                self._key_partitions.clear()
            found = self._key_partitions[key, count] = self._asked(key, count)
        return found

    def _asked(self, key: bytes, count: int) -> int:
        try:
            chosen = self._partitioner(key, count)
            if 0 <= chosen < count:
                return chosen
            self.partitioner_fault = f"it chose {chosen} of {count} partitions"
        except Exception as error:  # whatever an application's function raises: the record is to continue
            self.partitioner_fault = repr(error)
        return partition_for_key(key, count)

    def _enter_window(self, topic: str, record: PendingRecord) -> None:
        window = self._window(record)
        if window is not None:
            self._windows[topic, window] += 1

    def _leave_waiting(self, topic: str, record: PendingRecord, generation: int) -> None:
        """A record that waited for its partition is in a batch now, and counted with it."""
        _subtract(self._held, generation, 1)
        window = self._window(record)
        if window is not None:
            _subtract(self._windows, (topic, window), 1)

    def _close(self, queue: PartitionQueue) -> None:
        if queue.open is not None:
            self._held[queue.open.generation] += queue.open.record_count
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


def _subtract(counts: Counter[_Key], key: _Key, count: int) -> None:
    left = counts[key] - count
    if left:
        counts[key] = left
    else:
        del counts[key]
