"""What a destination with offsets of its own must do for the forwarder, and what it is handed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ...client.fetch.fetched import TopicPartition
from ...errors import HeadraceError
from ...wire.batch.record_batch import BatchHeader, read_header
from ...wire.batch.restamp import needs_rebuilding, rebuilt
from ...wire.mirror_ledger import CopiedBatch, LedgerEntry, SkippedRange


class OutgoingBatch(NamedTuple):
    """One batch of the source, in the form in which the destination can take it but for its stamp."""

    source: BatchHeader
    header: BatchHeader
    """With the source's base offset, and otherwise that of `batch`."""
    batch: memoryview
    deltas: tuple[int, ...] | None = None

    def copied(self, destination_base: int, crc: int) -> CopiedBatch:
        """Return the ledger's word for it, once it is at `destination_base` with this CRC."""
        source = self.source
        span = source.last_offset_delta + 1
        return CopiedBatch(source.base_offset, span, source.record_count, destination_base, source.crc ^ crc, self.deltas)


def outgoing(header: BatchHeader, batch: memoryview) -> OutgoingBatch:
    """Return the batch as it goes out; created again if no broker would take it as it is. Raises `CorruptBatch`."""
    if not needs_rebuilding(header):
        return OutgoingBatch(header, header, batch)
    made, deltas = rebuilt(header, batch)
    is_thinned = not header.is_dense
    return OutgoingBatch(
        header, read_header(made)._replace(base_offset=header.base_offset), made, tuple(deltas) if is_thinned else None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """What is next of one partition: all of [from_offset, to_offset) of the source."""

    name: TopicPartition
    """In the source."""
    there: TopicPartition
    """In the destination."""
    from_offset: int
    to_offset: int
    batches: Sequence[OutgoingBatch]
    skipped: Sequence[SkippedRange] = ()
    last: LedgerEntry | None = None
    """The ledger's last report of this partition."""
    source_id: str = ""
    destination_id: str = ""

    def entry(self, copied: Sequence[CopiedBatch]) -> LedgerEntry:
        """Return the ledger's word for the portion once its batches are copied."""
        last, source = self.last, self.batches[-1].source if self.batches else None
        before = None if last is None else last.source_crc
        return LedgerEntry(
            topic=self.name.topic,
            partition=self.name.partition,
            destination_topic=self.there.topic,
            from_offset=self.from_offset,
            to_offset=self.to_offset,
            source_id=self.source_id,
            destination_id=self.destination_id,
            batches=tuple(copied),
            skipped=tuple(self.skipped),
            destination_end=copied[-1].destination_next if copied else 0 if last is None else last.destination_end,
            source_crc=before if source is None else (source.base_offset, source.crc),
        )


class Outcome(NamedTuple):
    """What became of a portion: its entry in the ledger, or an error."""

    portion: Portion
    entry: LedgerEntry | None = None
    error: HeadraceError | None = None


class Sink(Protocol):
    """A destination; used by the forwarder's thread alone."""

    @property
    def is_open(self) -> bool: ...

    def open(self) -> list[LedgerEntry]:
        """Take over, and return the ledger's entries since the last call, in order."""

    def catch_up(
        self,
        name: TopicPartition,
        there: TopicPartition,
        last: LedgerEntry | None,
        *,
        source_start: int,
        destination: tuple[int, int],
    ) -> LedgerEntry | None:
        """Return the ledger's last report of a partition once it says all that the destination holds."""

    def write(self, portions: Sequence[Portion]) -> list[Outcome]:
        """Copy the portions and enter them in the ledger. Raises what concerns all of them; then `open` comes next."""
