"""Messages, and the exact range of each batch that was handed out. Knows no network and no group."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...wire.batch.record_batch import BatchHeader, Record, iter_records
from ..fetch.fetched import TopicPartition

LARGEST_SEQUENCE = (1 << 31) - 1
"""The sequence number after it is 0."""


class Message(NamedTuple):
    """One record of a stream. A named tuple for speed: one is made for every record."""

    topic: str
    partition: int
    offset: int
    next_offset: int
    """Where to continue after this message: the offset that a commit after it registers."""
    timestamp_ms: int
    """Event time."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int = -1
    """Who wrote it, where that was an idempotent producer; else -1. With epoch and sequence it names the record permanently, at
    whatever offset and in whichever cluster it is read.
    """
    producer_epoch: int = -1
    sequence: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedBatch:
    """The records of `batch` with offsets in [from_offset, to_offset) were handed to the application, each once."""

    partition: TopicPartition
    header: BatchHeader
    batch: memoryview
    from_offset: int
    to_offset: int


OnHanded = Callable[[HandedBatch], None]


class OpenBatch:
    """One batch that is handed out record by record. Raises CorruptBatch where the records cannot be read."""

    def __init__(self, partition: TopicPartition, epoch: int, header: BatchHeader, batch: memoryview, from_offset: int) -> None:
        self.partition, self.epoch, self.header, self.batch = partition, epoch, header, batch
        self.position = self._reported_to = from_offset
        """All records below this offset have been handed out."""
        self._records: Iterator[Record] = iter_records(batch)
        named = header.producer_id >= 0 and header.base_sequence >= 0
        self._producer = (header.producer_id, header.producer_epoch) if named else (-1, -1)
        self._sequence_at = header.base_sequence - header.base_offset if named else None
        """What makes an offset a sequence number."""

    def next_message(self) -> Message | None:
        """Return the next message, or None at the end of the batch; `position` is then the batch's own end."""
        topic, partition = self.partition
        for record in self._records:
            offset = record.offset
            if offset < self.position:
                continue  # the batch begins before the offset that was asked for
            self.position = after = offset + 1
            sequence = -1 if self._sequence_at is None else (offset + self._sequence_at) & LARGEST_SEQUENCE
            timestamp_ms, key, value, headers = record.timestamp_ms, record.key, record.value, record.headers
            return Message(topic, partition, offset, after, timestamp_ms, key, value, headers, *self._producer, sequence)
        self.position = max(self.position, self.header.next_offset)
        return None

    def take_handed(self) -> HandedBatch | None:
        """Return what was handed out since the last call, or None when nothing was."""
        if self.position <= self._reported_to:
            return None
        handed = HandedBatch(
            partition=self.partition, header=self.header, batch=self.batch, from_offset=self._reported_to, to_offset=self.position
        )
        self._reported_to = self.position
        return handed
