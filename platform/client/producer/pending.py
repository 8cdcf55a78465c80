"""Batches that are not acknowledged yet: per partition, in order, with their sequences. Pure: no socket, thread or clock.

Each partition has one open batch, closed ones in order, and at most one in flight: order and sequences follow from that alone.
Source: KIP-98 (idempotent producers). The rules for a lost tail are our own; see `PartitionQueue.renumber`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...wire.batch.batch_builder import assemble
from ...wire.batch.batch_header import CRC_AT, HEADER_SIZE
from ...wire.batch.compression import Codec
from ...wire.batch.record_frame import frame_any, moved
from ..errors import ClientError
from .delivery import BatchNumbers, DeliveryEnd
from .framing import frame_record

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
    frames: list[bytes] = field(default_factory=list)
    """The bytes of its records, with the timestamp deltas from `base_ms`."""
    base_ms: int = 0
    """The timestamp of its first record."""
    is_open: bool = True
    """It takes records."""
    size_bytes: int = HEADER_SIZE
    first_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    attempts: int = 0
    retry_at_ms: int = 0
    is_uncertain: bool = False
    """It was sent and no response came. It may be in the log, so it may only be sent again with the same sequence."""
    awaits_response: bool = False
    """It is being sent; no response came yet."""
    was_sent: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    crc: int = -1
    """As last built."""
    earlier_numbers: tuple[BatchNumbers, ...] = ()
    """Numbers that it may no longer be sent under, and under which it may be in the log."""
    last_error: ClientError | None = None

    @property
    def record_count(self) -> int:
        return len(self.frames)

    @property
    def charged_bytes(self) -> int:
        """Return its bytes in the producer's buffer."""
        return self.size_bytes - HEADER_SIZE

    def append(self, record: PendingRecord, size_bytes: int) -> None:
        """Add a record. Hot: its bytes are made here, so that the sender has little to do for each."""
        timestamp_ms, key, value, headers = record
        count = len(self.frames)
        if not count:
            self.base_ms = self.first_timestamp_ms = self.max_timestamp_ms = timestamp_ms
        elif timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
        elif timestamp_ms < self.first_timestamp_ms:
            self.first_timestamp_ms = timestamp_ms
        if headers or value is None:
            frame = frame_any(timestamp_ms - self.base_ms, count, key, value, headers)
        else:
            frame = frame_record(timestamp_ms - self.base_ms, count, key, b"", value)
        self.frames.append(frame)
        self.size_bytes += size_bytes

    def build(self, codec: Codec) -> bytes:
        """Return the batch's bytes under its current producer id and sequence."""
        built = assemble(
            self._records,
            codec=codec,
            record_count=len(self.frames),
            min_timestamp_ms=self.first_timestamp_ms,
            max_timestamp_ms=self.max_timestamp_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
        )
        self.crc = int.from_bytes(built[CRC_AT : CRC_AT + 4], "big")
        return built

    def _records(self) -> bytes:
        if self.first_timestamp_ms != self.base_ms:
            # A record was older than the first one. No delta of a batch is negative: all are counted from the oldest.
            by_ms = self.base_ms - self.first_timestamp_ms
            self.frames = [moved(frame, by_ms) for frame in self.frames]
            self.base_ms = self.first_timestamp_ms
        return b"".join(self.frames)

    @property
    def may_be_stored(self) -> bool:
        """Return whether it may be in the log under its current numbers."""
        return self.is_uncertain or self.awaits_response

    def ended(self, *, is_acknowledged: bool) -> tuple[DeliveryEnd, tuple[BatchNumbers, ...]]:
        """Return what became of it, now that it is acknowledged or given up, and the numbers under which it may be in the log."""
        if is_acknowledged or self.may_be_stored:
            end = DeliveryEnd.ACKNOWLEDGED if is_acknowledged else DeliveryEnd.UNCERTAIN
            return end, (*self.earlier_numbers, *self._current_numbers())
        if self.earlier_numbers:
            return DeliveryEnd.UNCERTAIN, self.earlier_numbers
        return DeliveryEnd.REFUSED if self.was_sent else DeliveryEnd.NEVER_SENT, ()

    def forget_numbers(self) -> None:
        """Have it numbered again before it is sent again."""
        if self.may_be_stored:
            self.earlier_numbers = (*self.earlier_numbers, *self._current_numbers())
        self.producer_id, self.producer_epoch, self.base_sequence = -1, -1, -1
        self.is_uncertain = False

    def _current_numbers(self) -> tuple[BatchNumbers, ...]:
        if self.base_sequence < 0:
            return ()
        return (BatchNumbers(self.producer_id, self.producer_epoch, self.base_sequence, self.crc),)


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
        self.open.is_open = False
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
        self.next_sequence = (self.next_sequence + batch.record_count) % _SEQUENCES

    def renumber(self, batch: PendingBatch) -> None:
        """Number this first batch, and those after it, from 0 under a new producer id.

        The broker does not know the sequences before this batch: it lost acknowledged ones, or forgot the producer. If it lost
        them, it does not hold this batch under the old numbers either. If it forgot the producer, and an earlier send of this
        batch had no response, the batch may come to be in the log twice: its old numbers are kept, and reported with its outcome.
        """
        self._spend_id()
        batch.forget_numbers()

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
        if batch.may_be_stored:
            self._spend_id()
        elif self.producer_id == batch.producer_id:
            self.next_sequence = batch.base_sequence

    def _spend_id(self) -> None:
        self.spent_id, self.producer_id = self.producer_id, -1
