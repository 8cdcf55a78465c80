"""What ends a reader, and where. Each error names the record."""

from collections.abc import Sequence

from ..client.fetch.fetched import TopicPartition
from ..errors import HeadraceError
from .record import EventRecord


class ReaderError(HeadraceError):
    """A reader cannot continue."""


class HandlerFailed(ReaderError):
    """The application's handler raised an error, which is the cause. The record is not committed: a new start reads it again."""

    def __init__(self, record: EventRecord, error: Exception) -> None:
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset
        super().__init__(
            f"the handler failed at offset {self.offset} of {self.topic}-{self.partition}: {type(error).__name__}: {error}. The "
            "reader stops there, and reads the record again when it is started. on_error=Quarantine(after=3) puts such records "
            "aside"
        )


class BatchFailed(HandlerFailed):
    """The application's store raised an error, which is the cause. None of the batch is committed: a new start reads it again.

    `topic`, `partition` and `offset` are the first record's.
    """

    def __init__(self, records: Sequence[EventRecord], error: Exception) -> None:
        self.topic, self.partition, self.offset = records[0].topic, records[0].partition, records[0].offset
        self.ranges: dict[TopicPartition, tuple[int, int]] = {}
        """The first and the last offset of each partition in the batch."""
        for record in records:
            self.ranges[record.of] = (self.ranges.get(record.of, (record.offset, 0))[0], record.offset)
        named = ", ".join(f"{first} to {last} of {name.topic}-{name.partition}" for name, (first, last) in self.ranges.items())
        ReaderError.__init__(
            self,
            f"the store failed with {len(records)} records, offsets {named}: {type(error).__name__}: {error}. The reader stops "
            "there, and reads them again when it is started. on_error=Quarantine(after=3) puts aside those that cause it",
        )


class ReaderMisused(ReaderError):
    """The reader was asked for what it cannot do; the message says what to do instead."""
