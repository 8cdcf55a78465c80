"""What a sink's process asks of a destination."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from ...client.fetch.fetched import TopicPartition
from ...errors import HeadraceError
from .records import SinkRecord


class SinkRefused(HeadraceError):
    """The destination cannot be used with these settings: its table has other columns, say."""


class SinkAway(HeadraceError):
    """The destination does not take anything now. What is held is offered again."""

    retriable = True

    def __init__(self, message: str, *, has_progressed: bool = False) -> None:
        """`has_progressed`: it took something before it failed."""
        self.has_progressed = has_progressed
        super().__init__(message)


class RefusedRecord(NamedTuple):
    """A record that the destination will never take."""

    record: SinkRecord
    reason: str


class Sink(Protocol):
    """Everything is called by one thread."""

    def begin(self, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Take over partitions, to be read from these offsets on; return those at which reading is to go on later than that,
        because the destination has what stands before.
        """

    def take(self, record: SinkRecord) -> None:
        """Hold a record until `flush`. Raises SinkAway: it was not taken."""

    @property
    def is_full(self) -> bool:
        """Return whether it must be flushed before it takes more."""

    def flush(self, positions: Mapping[TopicPartition, int]) -> list[RefusedRecord]:
        """Return once the destination has everything that was taken, with those that it refused for good.

        `positions`: what was taken stands before these offsets. Raises SinkAway, after which what is left is held still: it is
        called again; SinkRefused.
        """

    def end(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is held of these partitions: another member has them."""

    def close(self) -> None: ...
