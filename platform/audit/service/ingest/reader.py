"""Counts one tier by reading its log back: every batch header of every topic, from where the books stand.

Reads any Kafka-wire cluster. Holds no count of its own: what a fetch brought goes into the ledger before the next one,
with the position.
"""

from collections.abc import Mapping

from ....client.connection.cluster import Cluster
from ....client.errors import OffsetOutOfRange
from ....client.fetch.fetched import FetchedPartition, TopicPartition
from ....client.fetch.fetcher import Fetcher
from ....client.fetch.log_offsets import EARLIEST, log_offsets
from ....runtime.clock import Clock
from ....runtime.logs import get_logger
from ...counter import WindowCounter
from ...model.tier_reports import PartitionRead, ReadWindow
from ..store.ledger import Ledger, UnreadableRange, is_audited
from .reading_thread import ReadingThread

log = get_logger(__name__)


class LogReader(ReadingThread):
    """The thread that reads one cluster for one tier."""

    def __init__(self, tier: str, bootstrap: str, ledger: Ledger, clock: Clock, *, fetch_wait_ms: int = 500) -> None:
        super().__init__(f"audit-{tier}", Cluster(bootstrap, client_id=f"headrace-audit-{tier}"))
        self.tier = tier
        partition_bytes = ledger.settings.fetch_partition_bytes
        self._fetcher = Fetcher(self._cluster, max_wait_ms=fetch_wait_ms, partition_max_bytes=partition_bytes)
        self._ledger = ledger
        self._clock = clock
        self._counter = WindowCounter(ledger.settings.window_ms)
        self._known: set[TopicPartition] = set()
        self._discovered_ms: int | None = None

    def _read_once(self) -> None:
        self._discover()
        if not self._read():
            self._stop.wait(min(200, self._ledger.settings.discover_ms))

    def _begin_again(self) -> None:
        self._discovered_ms = None

    def _tell_recovered(self) -> None:
        log.info("log_readable_again", tier=self.tier)

    def _tell_failed(self, error: Exception, *, is_fault: bool) -> None:
        log.warning("log_not_readable", tier=self.tier, reason=str(error), exc_info=is_fault)

    def _discover(self) -> None:
        """Learn of new topics and partitions now and then."""
        now_ms = self._clock.monotonic_ms()
        if self._discovered_ms is not None and now_ms - self._discovered_ms < self._ledger.settings.discover_ms:
            return
        names = [topic for topic in self._cluster.topics() if is_audited(topic)]
        self._known = {TopicPartition(topic, partition) for topic in names for partition in self._cluster.partitions(topic)}
        self._discovered_ms = now_ms

    def _read(self) -> bool:
        """Fetch once and put into the ledger what came; return False when there is nothing to read yet."""
        generation, positions = self._ledger.positions(self.tier)
        wanted = {partition: positions[partition] for partition in self._known if partition in positions}
        new = self._known - positions.keys()
        starts = log_offsets(self._cluster, dict.fromkeys(new, EARLIEST)) if new else {}
        wanted |= starts
        if not wanted:
            return False
        asked_ms = self._clock.now_ms()
        reads: list[PartitionRead] = []
        unreadable: list[UnreadableRange] = []
        caught_up: dict[TopicPartition, int] = {}
        for fetched in self._fetcher.fetch(wanted):
            name = TopicPartition(fetched.topic, fetched.partition)
            if fetched.error is not None:
                continue
            read, bad = self._count(fetched)
            unreadable += bad
            if read.to_offset > read.from_offset or name in starts:
                reads.append(read)
            if read.to_offset >= fetched.high_watermark:
                caught_up[name] = asked_ms
        self._ledger.take_reads(self.tier, generation, reads, unreadable, caught_up)
        return True

    def _count(self, fetched: FetchedPartition) -> tuple[PartitionRead, list[UnreadableRange]]:
        at = fetched.requested_offset
        behind = at
        windows: dict[int, tuple[int, int, dict[int, int]]] = {}
        bad = [(one.from_offset, one.to_offset, one.reason) for one in fetched.corrupt]
        for header, batch in fetched.batches:
            begin = max(behind, header.position)
            if begin > behind:
                bad += self._skipped(behind, begin, fetched)
            behind = header.next_offset
            self._counter.add(header, batch, from_offset=at)
            for start, by_producer in self._counter.take_by_producer().items():
                first, end, counts = windows.get(start, (begin, header.next_offset, {}))
                for producer_id, count in by_producer.items():
                    counts[producer_id] = counts.get(producer_id, 0) + count
                windows[start] = (min(first, begin), max(end, header.next_offset), counts)
        unreadable = [
            UnreadableRange(
                topic=fetched.topic, partition=fetched.partition, from_offset=from_offset, to_offset=to_offset, reason=reason
            )
            for from_offset, to_offset, reason in bad
        ]
        read = PartitionRead(
            topic=fetched.topic,
            partition=fetched.partition,
            from_offset=at,
            to_offset=fetched.next_offset,
            windows=_read_windows(windows),
        )
        return read, unreadable

    def _skipped(self, from_offset: int, to_offset: int, fetched: FetchedPartition) -> list[tuple[int, int, str]]:
        """Return the offsets between two batches as unreadable, unless the fetch itself has called them so.

        (Our broker serves nothing of a batch that its own recovery found bad. On a compacted topic of Kafka this is no loss.)
        """
        if any(one.from_offset < to_offset and from_offset < one.to_offset for one in fetched.corrupt):
            return []
        return [(from_offset, to_offset, "the broker serves nothing of these offsets")]

    def _out_of_range(self, error: OffsetOutOfRange) -> None:
        """The log no longer begins before our position, or it ends there: go on at its start, or count it anew."""
        generation, positions = self._ledger.positions(self.tier)
        at = positions.get(TopicPartition(error.topic, error.partition), error.offset)
        if at < error.log_start_offset:
            gone = UnreadableRange(
                topic=error.topic,
                partition=error.partition,
                from_offset=at,
                to_offset=error.log_start_offset,
                reason="expired before the audit counted it",
            )
            skip = PartitionRead(
                topic=error.topic, partition=error.partition, from_offset=at, to_offset=error.log_start_offset, windows={}
            )
            self._ledger.take_reads(self.tier, generation, [skip], [gone], {})
            return
        # The log is shorter than what was counted of it: cut by a crash, or deleted and made again. What a tier holds
        # is what its log holds.
        log.warning("log_shrank", tier=self.tier, topic=error.topic, partition=error.partition, counted_up_to=at)
        self._ledger.forget(self.tier, error.topic)


def _read_windows(windows: Mapping[int, tuple[int, int, dict[int, int]]]) -> dict[int, ReadWindow]:
    return {
        start: ReadWindow(first_offset=first, end_offset=end, by_producer=counts)
        for start, (first, end, counts) in windows.items()
    }
