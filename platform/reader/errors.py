"""What ends a reader, and where. Each error names the record."""

from ..errors import HeadraceError
from .record import EventRecord


class ReaderError(HeadraceError):
    """A reader cannot go on."""


class HandlerFailed(ReaderError):
    """The application's handler raised an error, which is the cause. The record is not committed: a new start reads it again."""

    def __init__(self, record: EventRecord, error: Exception) -> None:
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset
        super().__init__(
            f"the handler failed at offset {self.offset} of {self.topic}-{self.partition}: {type(error).__name__}: {error}. The "
            "reader stops there, and reads the record again when it is started. on_error=Quarantine(after=3) puts such records "
            "aside"
        )


class ReaderMisused(ReaderError):
    """The reader was asked for what it cannot do; the message says what to do instead."""
