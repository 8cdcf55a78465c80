"""Counts one tier by reading its log back: every batch header of every topic, from where the books stand.

Reads any Kafka-wire cluster. Holds no count of its own: what a fetch brought goes into the ledger before the next one, with the
position. `log_scan.py` reads again what was read before.
"""

from collections.abc import Iterable, Mapping

from ....client.connection.cluster import Cluster
from ....client.errors import OffsetOutOfRange
from ....client.fetch.fetched import TopicPartition
from ....client.fetch.fetcher import Fetcher
from ....client.fetch.log_offsets import EARLIEST, log_offsets
from ....runtime.clock import Clock
from ....runtime.logs import get_logger
from ...model.messages import EXPIRED, Skipped
from ...model.tier_reports import PartitionRead
from ...model.tiers import OFFLINE
from ..store.ledger import Ledger
from ..store.log_books import LogRead, UnreadableRange
from ..store.open_books import is_audited
from .log_scan import LogScan, ReadBooks
from .origin_reader import OriginReader
from .read_batches import ReadBatches
from .reading_thread import ReadingThread

log = get_logger(__name__)

DISCOVER_SHARE = 20
"""New topics are looked for at most so that this takes one part in as many of the time: 10,000 topics are a long answer."""
MOST_MS_A_TOPIC = 2
"""The pause that this makes, by topic: a look that is slow for another reason (it connects, the machine is busy) makes none."""


class LogReader(ReadingThread):
    """The thread that reads one cluster for one tier."""

    def __init__(
        self,
        tier: str,
        bootstrap: str,
        ledger: Ledger,
        clock: Clock,
        *,
        fetch_wait_ms: int = 500,
        copied_from: str | None = None,
        mirror: str = "mirror",
        books: ReadBooks | None = None,
    ) -> None:
        """`copied_from`: the bootstrap of the cluster of which this one holds a copy, made by the mirror of the name `mirror`.
        `books`: the ledger under the names that the logs have here.
        """
        super().__init__(f"audit-{tier}", Cluster(bootstrap, client_id=f"headrace-audit-{tier}"))
        self._source = None if copied_from is None else Cluster(copied_from, client_id=f"headrace-audit-{tier}")
        self._origins = None if self._source is None else OriginReader(self._source, self._cluster, mirror, ledger, clock)
        if self._origins is not None:
            ledger.logs.await_origins()
        self.tier = tier
        partition_bytes = ledger.books.settings.fetch_partition_bytes
        self._fetcher = Fetcher(self._cluster, max_wait_ms=fetch_wait_ms, partition_max_bytes=partition_bytes, hides_aborted=True)
        self._ledger = ledger
        self._books = ledger.logs if books is None else books
        self._clock = clock
        self._batches = ReadBatches(tier, ledger.books.settings.window_ms)
        self.scan = LogScan(tier, self._cluster, self._books, clock)
        self._known: set[TopicPartition] = set()
        self._discover_at_ms: int | None = None
        self._failed: set[TopicPartition] = set()
        self._is_suspect: set[TopicPartition] = set()
        """Partitions that may be others than they were: to be read again."""

    def stop(self) -> None:
        super().stop()
        if self._source is not None:
            self._source.close()

    def _read_once(self) -> None:
        if self._origins is not None:
            self._origins.refresh()
        self._discover()
        has_read = self._read()
        if self._is_suspect:
            self.scan.ask("another partition of the topic has become shorter", self._is_suspect)
            self._is_suspect = set()
        self.scan.go_on(self._known)
        if not has_read:
            self._stop.wait(min(200, self._ledger.books.settings.discover_ms))

    def _begin_again(self) -> None:
        self._discover_at_ms = None

    def _tell_recovered(self) -> None:
        log.info("log_readable_again", tier=self.tier)
        # Whoever was away may have been restarted, and its log may be another one now.
        self.scan.ask("the cluster was away")

    def _tell_failed(self, error: Exception, *, is_fault: bool) -> None:
        log.warning("log_not_readable", tier=self.tier, reason=str(error), exc_info=is_fault)

    def _discover(self) -> None:
        """Learn of new topics and partitions now and then, and of topics that were created again."""
        began_ms = self._clock.monotonic_ms()
        if self._discover_at_ms is not None and began_ms < self._discover_at_ms:
            return
        asked_ms = self._clock.now_ms()
        topics = self._cluster.topics()
        names = self._take_topics(topics, self._cluster.topic_ids(), asked_ms)
        self._known = {TopicPartition(topic, partition) for topic in names for partition in self._cluster.partitions(topic)}
        took_ms = self._clock.monotonic_ms() - began_ms
        pause_ms = min(DISCOVER_SHARE * took_ms, MOST_MS_A_TOPIC * len(names))
        self._discover_at_ms = began_ms + max(self._ledger.books.settings.discover_ms, pause_ms)

    def _take_topics(self, topics: Iterable[str], ids: Mapping[str, str], asked_ms: int) -> list[str]:
        """Note which topics of the cluster are read, as of `asked_ms`, and by which id; return them."""
        names = [topic for topic in topics if is_audited(topic)]
        self._ledger.logs.see_topic_ids(self.tier, {topic: ids[topic] for topic in names if topic in ids}, asked_ms)
        return names

    def _read(self) -> bool:
        """Fetch once and put into the ledger what came; return False when there is nothing to read yet."""
        generation, positions = self._books.positions(self.tier)
        wanted = {partition: positions[partition] for partition in self._known if partition in positions}
        new = self._known - positions.keys()
        starts = log_offsets(self._cluster, dict.fromkeys(new, EARLIEST)) if new else {}
        wanted |= starts
        if not wanted:
            return False
        asked_ms = self._clock.now_ms()
        reads: list[LogRead] = []
        caught_up: dict[TopicPartition, int] = {}
        for fetched in self._fetcher.fetch(wanted):
            name = TopicPartition(fetched.topic, fetched.partition)
            if fetched.error is not None:
                self._failed.add(name)
                continue
            if name in self._failed:
                self._failed.discard(name)
                self.scan.ask("its leader was away", {name})
            read = self._batches.of(fetched)
            if read.found.to_offset > read.found.from_offset or name in starts:
                reads.append(read)
            if read.found.to_offset >= fetched.high_watermark:
                caught_up[name] = asked_ms
        self._books.take_reads(self.tier, generation, reads, caught_up)
        return True

    def _out_of_range(self, error: OffsetOutOfRange) -> None:
        """The log no longer begins before our position, or it ends there: continue at its start, or count it again."""
        self._discover_at_ms = None
        generation, positions = self._books.positions(self.tier)
        name = TopicPartition(error.topic, error.partition)
        at = positions.get(name, error.offset)
        if at < error.log_start_offset:
            gone = (at, error.log_start_offset)
            skip = PartitionRead(
                topic=name.topic, partition=name.partition, from_offset=gone[0], to_offset=gone[1],
                skipped=(Skipped(*gone, EXPIRED),),
            )  # fmt: skip
            reason = "expired before the audit counted it"
            told = UnreadableRange(
                topic=name.topic, partition=name.partition, from_offset=gone[0], to_offset=gone[1], reason=reason
            )
            self._books.take_reads(self.tier, generation, [LogRead(found=skip, unreadable=(told,))], {})
            return
        # The log is shorter than what was counted of it: cut by a crash, or deleted and made again (of a cluster without topic
        # ids this is the only sign). What a tier holds is what its log holds.
        log.warning("log_shrank", tier=self.tier, topic=error.topic, partition=error.partition, counted_up_to=at)
        if self.tier == OFFLINE:
            self._books.recount(self.tier, error.topic, {})
            return
        # What it held once is not forgotten: the mirror may have copied it, and then holds the only copy.
        self._books.log_shrank(self.tier, name, error.log_start_offset)
        self._is_suspect = {one for one in self._known if one.topic == name.topic and one != name}

    def log_starts(self, topic: str) -> Mapping[int, int]:
        """Return where each partition of the topic begins now. Asks the cluster; raises ClientError."""
        names = {TopicPartition(topic, partition): EARLIEST for partition in self._cluster.partitions(topic)}
        return {name.partition: offset for name, offset in log_offsets(self._cluster, names).items()}
