"""Counts for the audit what the destination holds, partition by partition. Belongs to the forwarder's thread."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from ..audit.counter import WindowCounter
from ..audit.model.messages import EXPIRED, Stretch
from ..audit.model.tiers import MIRROR
from ..audit.publisher import RangeReporter, UnreportedBacklog
from ..client.fetch.fetched import TopicPartition
from ..wire.batch.record_batch import BatchHeader
from .errors import MirrorError
from .metrics import Tally
from .partition_copy import Gap
from .quarantine import CorruptRanges

PUBLISH_TIMEOUT_MS = 5_000

Batch = tuple[BatchHeader, memoryview]


class ReportedPositions(Protocol):
    """Where it is kept how far the mirror has reported; `coordination.AuditPositions`, `client.GroupPositions`."""

    def read_many(self, tier: str, names: Iterable[tuple[str, int]], /) -> Mapping[tuple[str, int], int]: ...


class Counting:
    """The counts of one mirror."""

    def __init__(self, reporter: RangeReporter, positions: ReportedPositions, quarantine: CorruptRanges) -> None:
        self.reporter = reporter
        self.quarantine = quarantine
        self._positions = positions
        self.tally = Tally()
        self._last_ms: dict[TopicPartition, int] = {}

    def reported(self, names: Collection[TopicPartition]) -> Mapping[tuple[str, int], int]:
        """Return how far each of the partitions is reported; those that never were are left out. Asks for those only that this
        process has not begun.
        """
        unknown = [name for name in names if self.reporter.position(*name) is None]
        return self._positions.read_many(MIRROR, unknown) if unknown else {}

    def count(self, name: TopicPartition, batches: Sequence[Batch]) -> None:
        """Count whole batches as held. Raises MirrorError if they do not follow what is counted, and what reporting raises."""
        position = self.reporter.position(*name)
        if batches and position is not None and position < batches[0][0].position:
            raise MirrorError(f"counted up to {position}, and {batches[0][0].position} was to follow: counting what lies between")
        while batches:
            noted = self.reporter.add_batches(*name, batches)
            if noted:
                self._last_ms[name] = batches[noted - 1][0].max_timestamp_ms
                self.tally.add(name.topic, batches[:noted])
            batches = batches[noted:]
            if batches:
                # Too many windows wait to be reported. Reporting them makes room.
                self.reporter.publish(PUBLISH_TIMEOUT_MS)

    def count_quarantined(self, name: TopicPartition, header: BatchHeader, batch: memoryview) -> None:
        """Count a whole batch as one that is in quarantine."""
        counter = WindowCounter()
        counter.add(header, batch, from_offset=self.reporter.position(*name) or 0)
        found = {start: [entry.stretch for entry in entries] for start, entries in counter.take().items()}
        self._move_to(name, header.next_offset, found)

    def move_to(self, name: TopicPartition, to_offset: int) -> None:
        """Note that nothing more is to be counted up to `to_offset`."""
        self._move_to(name, to_offset, {})

    def _move_to(self, name: TopicPartition, to_offset: int, quarantined: Mapping[int, Sequence[Stretch]]) -> None:
        try:
            self.reporter.add_records(*name, to_offset, {}, quarantined=quarantined)
        except UnreportedBacklog:
            self.reporter.publish(PUBLISH_TIMEOUT_MS)
            self.reporter.add_records(*name, to_offset, {}, quarantined=quarantined)

    def expired(self, name: TopicPartition, gap: Gap) -> None:
        """Note offsets that the source's retention was faster to delete."""
        self.reporter.skip(*name, gap.to_offset, EXPIRED)

    def pass_over(self, name: TopicPartition, gap: Gap, copied_to: int) -> None:
        """Quarantine offsets that the source cannot serve, and continue behind them."""
        self.quarantine.put(name, gap, previous_ms=self._last_ms.get(name))
        if gap.from_offset < copied_to:
            # The destination holds what the source can no longer serve: not lost, only not counted.
            self.reporter.publish(PUBLISH_TIMEOUT_MS)
            self.reporter.begin(*name, min(copied_to, gap.to_offset))
        self.reporter.skip(*name, gap.to_offset, "corrupt")

    def forget(self, name: TopicPartition) -> None:
        """The partition is gone. What is counted of it goes out with the next report."""
        self._last_ms.pop(name, None)
