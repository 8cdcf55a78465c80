"""One record as an application reads it."""

from typing import Any, NamedTuple

from ..client.consumer.stream_message import Message
from ..client.fetch.fetched import TopicPartition


class EventRecord(NamedTuple):
    """One record and its decoded event. A named tuple for speed: one is made for every record."""

    message: Message
    schema_id: int
    event: Any
    """An instance of the reader's class; a dict where the reader has none."""

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def partition(self) -> int:
        return self.message.partition

    @property
    def offset(self) -> int:
        return self.message.offset

    @property
    def timestamp_ms(self) -> int:
        """Event time."""
        return self.message.timestamp_ms

    @property
    def key(self) -> bytes | None:
        return self.message.key

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        return self.message.headers

    @property
    def of(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.message.topic, self.message.partition)

    @property
    def id(self) -> str:
        """The key for de-duplication: where the record stands. It is the same however often the record is read."""
        return f"{self.message.topic}-{self.message.partition}-{self.message.offset}"

    @property
    def size_bytes(self) -> int:
        return len(self.message.value or b"") + len(self.message.key or b"")
