"""The planned batches of one producer and partition, oldest first. Pure: decides order and numbers, sends nothing."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...client.producer.delivery import BatchNumbers
from ..plan.entries import Entries
from ..plan.settling import Cause
from ..state.rows import BatchRow

SEQUENCES = 1 << 31
"""Sequence numbers begin again at 0 behind 2^31 - 1."""


class QueueKey(NamedTuple):
    """Whose batches, and where to."""

    owner: int
    topic: str
    partition: int


@dataclass(slots=True, eq=False)
class Batch:
    """A planned batch in memory."""

    row: BatchRow
    content: bytes | None
    """Its bytes; None: they are to be built from the source again."""
    may_be_sent_since_ms: int | None = None
    """Wall clock: when it may have been sent first; None: surely never."""
    attempts: int = 0
    retry_at_ms: int = 0
    """Monotonic."""
    look: Cause | None = None
    """Why the log is read back for it, before anything else."""
    is_looked_for: bool = False
    """The log was read back for it, and does not hold it: it may be sent again under its numbers, however old."""
    rest: Entries | None = None
    """The source has changed: the entries of its chunk as they are now."""


class BatchQueue:
    """`next_numbers` is what the next planned batch gets: producer id, epoch, sequence; None: it has no producer id yet."""

    def __init__(self, key: QueueKey, next_numbers: tuple[int, int, int] | None) -> None:
        self.key = key
        self.next_numbers = next_numbers
        self.batches: deque[Batch] = deque()
        self.is_in_flight = False
        self.needs_other_id = False
        """Nobody knows which sequence number the broker expects: what waits is numbered from 0 under another producer id."""
        self.begins_at: tuple[int, int, int] | None = None
        """The first batch is to have these numbers: the one before it was not stored under them."""

    @property
    def is_to_be_numbered(self) -> bool:
        return self.needs_other_id or self.begins_at is not None

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    @property
    def head(self) -> Batch | None:
        return self.batches[0] if self.batches else None

    def take_numbers(self, record_count: int) -> tuple[int, int, int]:
        """Return the numbers of a new batch, which takes the sequence numbers that follow, one a record."""
        assert self.next_numbers is not None, "a partition without a producer id numbers nothing"
        producer_id, epoch, sequence = self.next_numbers
        self.next_numbers = (producer_id, epoch, (sequence + record_count) % SEQUENCES)
        return producer_id, epoch, sequence

    def renumber(self, producer_id: int, producer_epoch: int, first_sequence: int) -> list[tuple[Batch, BatchNumbers]]:
        """Number every batch that waits from `first_sequence` on, none of them in flight; their CRC is to be made.

        Return each with its old numbers.
        """
        assert not self.is_in_flight
        changed: list[tuple[Batch, BatchNumbers]] = []
        self.needs_other_id, self.begins_at = False, None
        self.next_numbers = (producer_id, producer_epoch, first_sequence)
        for batch in self.batches:
            old = batch.row.numbers
            batch.row.numbers = BatchNumbers(*self.take_numbers(batch.row.record_count), old.crc)
            changed.append((batch, old))
        return changed
