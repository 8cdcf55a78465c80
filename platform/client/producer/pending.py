"""Batches that are not acknowledged yet: per partition, in order, with their sequences. Pure: no socket, thread or clock.

Each partition has one open batch, closed ones in order, and at most one in flight: order and sequences follow from that alone.
Source: KIP-98 (idempotent producers). The rules for a lost tail are our own; see `PartitionQueue.renumber`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...wire.batch.compression import Codec
from ...wire.batch.record_batch import HEADER_SIZE, BatchBuilder
from ..errors import ClientError

Headers = Sequence[tuple[str, bytes | None]]
PendingRecord = tuple[int, bytes | None, bytes | None, Headers]
"""Timestamp (ms), key, value, headers."""

RECORD_OVERHEAD_BYTES = 24
"""Upper bound of a record's bytes besides key, value and headers: lengths, deltas, attributes."""
_SEQUENCES = 1 << 31


def record_size_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return an upper bound of the bytes one record takes in an uncompressed batch."""
    size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += 10 + 4 * len(name) + (len(content) if content else 0)
    return size


@dataclass(slots=True, kw_only=True)
class PendingBatch:
    """Records of one partition that are sent and acknowledged together."""

    topic: str
    partition: int
    opened_ms: int
    """Monotonic; linger and delivery timeout count from here."""
    generation: int
    """The flush that it belongs to."""
    window: int | None
    records: list[PendingRecord] = field(default_factory=list)
    size_bytes: int = HEADER_SIZE
    charged_bytes: int = 0
    """Its bytes in the producer's buffer."""
    first_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    attempts: int = 0
    retry_at_ms: int = 0
    is_uncertain: bool = False
    """It was sent and no response came. It may be in the log, so it may only be sent again with the same sequence."""
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    last_error: ClientError | None = None

    def append(self, record: PendingRecord, size_bytes: int) -> None:
        timestamp_ms = record[0]
        if not self.records:
            self.first_timestamp_ms = self.max_timestamp_ms = timestamp_ms
        elif timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
        elif timestamp_ms < self.first_timestamp_ms:
            self.first_timestamp_ms = timestamp_ms
        self.records.append(record)
        self.size_bytes += size_bytes
        self.charged_bytes += size_bytes

    def build(self, codec: Codec) -> bytes:
        """Return the batch's bytes under its current producer id and sequence."""
        builder = BatchBuilder(codec, self.producer_id, self.producer_epoch, self.base_sequence)
        for record in self.records:
            builder.append(*record)
        return builder.build()


class PartitionQueue:
    """The batches of one partition, oldest first, and the sequence of the next new one."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.open: PendingBatch | None = None
        self.closed: deque[PendingBatch] = deque()
        self.in_flight: PendingBatch | None = None
        self.producer_id = -1
        self.producer_epoch = -1
        self.next_sequence = 0
        self.spent_id = -1
        """The producer id that this partition may no longer use."""

    @property
    def is_empty(self) -> bool:
        return self.open is None and not self.closed

    def batches(self) -> list[PendingBatch]:
        """Return all batches, oldest first."""
        return [*self.closed, self.open] if self.open is not None else list(self.closed)

    def close_open(self) -> bool:
        """Close the open batch, if there is one."""
        if self.open is None:
            return False
        self.closed.append(self.open)
        self.open = None
        return True

    def due_ms(self, linger_ms: int) -> int | None:
        """Return when its first batch may be sent (monotonic ms); None while one is in flight or the queue is empty."""
        if self.in_flight is not None:
            return None
        if self.closed:
            return self.closed[0].retry_at_ms
        return None if self.open is None else self.open.opened_ms + linger_ms

    def take(self) -> PendingBatch:
        """Return the first batch, now in flight. The caller has checked that one is due."""
        if not self.closed:
            self.close_open()
        self.in_flight = self.closed[0]
        return self.in_flight

    def needs_producer_id(self, present_id: int) -> bool:
        """Return whether the next new batch needs a newer producer id than `present_id`, because that one is spent here."""
        return self.producer_id < 0 and self.spent_id == present_id

    def number(self, batch: PendingBatch, producer_id: int, producer_epoch: int) -> None:
        """Give a batch its sequence if it has none; a batch that was sent before keeps its own.

        The partition keeps its producer id. Without one it begins at sequence 0 under the given id.
        """
        if batch.base_sequence >= 0:
            return
        if self.producer_id < 0:
            self.producer_id, self.producer_epoch, self.next_sequence = producer_id, producer_epoch, 0
        batch.producer_id, batch.producer_epoch = self.producer_id, self.producer_epoch
        batch.base_sequence = self.next_sequence
        self.next_sequence = (self.next_sequence + len(batch.records)) % _SEQUENCES

    def renumber(self, batch: PendingBatch) -> None:
        """Number this first batch, and those after it, from 0 under a new producer id.

        The broker does not know the sequences before this batch: it lost acknowledged ones, or forgot the producer. So it cannot
        hold this batch under the old number either, and under a new id the batch is stored once.
        """
        self._spend_id()
        batch.producer_id, batch.producer_epoch, batch.base_sequence = -1, -1, -1
        batch.is_uncertain = False

    def done(self, batch: PendingBatch) -> None:
        """Remove the first batch: it was acknowledged."""
        assert self.closed[0] is batch, "only the first batch of a partition can be done"
        self.closed.popleft()
        self.in_flight = None

    def again(self, batch: PendingBatch, retry_at_ms: int) -> None:
        """Keep the batch first in the queue, to be sent again from `retry_at_ms` on."""
        batch.attempts += 1
        batch.retry_at_ms = retry_at_ms
        self.in_flight = None

    def give_up(self, batch: PendingBatch) -> None:
        """Remove a batch that was not acknowledged. The next batch's sequence is right whether or not this one was stored."""
        self.closed.remove(batch)
        if self.in_flight is batch:
            self.in_flight = None
        if batch.base_sequence < 0:
            return
        if batch.is_uncertain:
            self._spend_id()
        elif self.producer_id == batch.producer_id:
            self.next_sequence = batch.base_sequence

    def _spend_id(self) -> None:
        self.spent_id, self.producer_id = self.producer_id, -1
