"""What the reading loop needs from the part that processes records: a handler, a store with its own positions, a sink."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from ..client.fetch.fetched import TopicPartition
from ..errors import HeadraceError
from .record import EventRecord


class ProcessorAway(HeadraceError):
    """Nothing can be taken now. What is held is offered again."""

    retriable = True

    def __init__(self, message: str, *, has_progressed: bool = False) -> None:
        """`has_progressed`: something was taken before the failure."""
        self.has_progressed = has_progressed
        super().__init__(message)


class PartitionsTaken(ProcessorAway):
    """Other members have taken these partitions over: what this member held of them was not stored, and is forgotten. The other
    partitions are held still.
    """

    def __init__(self, partitions: Collection[TopicPartition], message: str) -> None:
        self.partitions = tuple(partitions)
        super().__init__(message)


class RefusedRecord(NamedTuple):
    """A record that will never be taken: it goes to quarantine."""

    record: EventRecord
    reason: str
    code: str = "refused_by_sink"
    """The quarantine record's."""


class Processor(Protocol):
    """One member's. Everything is called by one thread."""

    def begin(self, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Take over partitions, to be read from these offsets on; return those at which reading is to continue instead, because
        what is before is done, and nothing behind it. Raises ProcessorAway: none was taken over, and it is called again.
        """

    def take(self, record: EventRecord) -> None:
        """Process the record, or hold it until `flush`. Raises ProcessorAway: it was not taken."""

    @property
    def is_full(self) -> bool:
        """Return whether it must be flushed before it takes more."""

    def flush(self, positions: Mapping[TopicPartition, int]) -> list[RefusedRecord]:
        """Return the records that were refused permanently; called again once quarantine has them. Without any, everything that
        was taken is done permanently.

        `positions`: what was taken is before these offsets. Raises ProcessorAway, after which what is left is held still and
        it is called again; any error that is not retriable ends the loop.
        """

    def end(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is held of these partitions: another member has them."""

    def close(self) -> None: ...
