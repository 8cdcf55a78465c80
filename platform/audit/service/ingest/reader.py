"""Counts one tier by reading its log back: every batch header of every topic, from where the books stand.

Reads any Kafka-wire cluster. Holds no count of its own: what a fetch brought goes into the ledger before the next one, with the
position. `log_scan.py` reads again what was read before.
"""

from collections.abc import Mapping

from ....client.connection.cluster import Cluster
from ....client.connection.control_plane import Listing
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
from .places import Places, nothing_at
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
        self._fetcher = Fetcher(
            self._cluster,
            max_wait_ms=fetch_wait_ms,
            partition_max_bytes=partition_bytes,
            hides_aborted=True,
            leaves_out_idle=True,
        )
        self._ledger = ledger
        self._books = ledger.logs if books is None else books
        self._clock = clock
        self._batches = ReadBatches(tier, ledger.books.settings.window_ms)
        self.scan = LogScan(tier, self._cluster, self._books, clock)
        self._known: frozenset[TopicPartition] = frozenset()
        self._listed: tuple[Listing, int] | None = None
        """The topics as they were taken last, and the generation of the books then."""
        self._places = Places()
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

    def _discover(self) -> bool:
        """Learn of new topics and partitions now and then, and of topics that were made anew; return whether it was time."""
        began_ms = self._clock.monotonic_ms()
        if self._discover_at_ms is not None and began_ms < self._discover_at_ms:
            return False
        asked_ms = self._clock.now_ms()
        listing = self._cluster.listing()
        generation, _ = self._books.positions(self.tier, ())
        if self._listed is not None and listing is self._listed[0] and generation == self._listed[1]:
            self._same_topics(asked_ms)
        else:
            names = self._take_topics(listing, asked_ms)
            known = frozenset(TopicPartition(topic, one) for topic in names for one in listing.partitions[topic])
            self._known = self._known if known == self._known else known
            self._listed = listing, generation
        took_ms = self._clock.monotonic_ms() - began_ms
        pause_ms = min(DISCOVER_SHARE * took_ms, MOST_MS_A_TOPIC * len(listing.partitions))
        self._discover_at_ms = began_ms + max(self._ledger.books.settings.discover_ms, pause_ms)
        return True

    def _take_topics(self, listing: Listing, asked_ms: int) -> list[str]:
        """Note which topics of the cluster are read, as of `asked_ms`, and by which id; return them."""
        names = [topic for topic in listing.partitions if is_audited(topic)]
        ids = listing.ids
        self._ledger.logs.see_topic_ids(self.tier, {topic: ids[topic] for topic in names if topic in ids}, asked_ms)
        return names

    def _same_topics(self, asked_ms: int) -> None:
        """Note that they are as they were, as of `asked_ms`."""
        self._ledger.logs.see_topic_ids(self.tier, {}, asked_ms)

    def _read(self) -> bool:
        """Fetch once and put into the ledger what came; return False when there is nothing to read yet."""
        places = self._places
        generation, _ = self._books.positions(self.tier, ())
        if not places.are_of(self._known, generation):
            places.take(self._known, *self._books.positions(self.tier))
        starts = log_offsets(self._cluster, dict.fromkeys(places.new, EARLIEST)) if places.new else {}
        for name, start in starts.items():
            places.wanted.move(name, start)
        if not places.wanted:
            return False
        asked_ms = self._clock.now_ms()
        reads: list[LogRead] = []
        at_end: set[TopicPartition] = set()
        came: set[TopicPartition] = set()
        failed: set[TopicPartition] = set()
        for fetched in self._fetcher.fetch(places.wanted):
            name = TopicPartition(fetched.topic, fetched.partition)
            came.add(name)
            if fetched.error is not None:
                self._failed.add(name)
                failed.add(name)
                continue
            read = self._batches.of(fetched)
            if read.found.to_offset > read.found.from_offset or name in starts:
                reads.append(read)
            if read.found.to_offset >= fetched.high_watermark:
                at_end.add(name)
        ends = places.ends(asked_ms, came, at_end, turns=self._fetcher.turns)
        if back := {name for name in self._failed - failed if name in came or name in ends.caught_up}:
            self._failed -= back
            self.scan.ask("its leader was away", back)
        reads += [nothing_at(name, start) for name, start in starts.items() if name not in came]
        taken = self._books.take_reads(self.tier, generation, reads, ends.caught_up, behind=ends.behind, level_ms=ends.level_ms)
        if taken:
            places.note(ends, self._books.positions(self.tier, [read.name for read in reads])[1])
        else:
            places.forget()
        return True

    def _out_of_range(self, error: OffsetOutOfRange) -> None:
        """The log no longer begins before our position, or it ends there: continue at its start, or count it again."""
        self._discover_at_ms = None
        name = TopicPartition(error.topic, error.partition)
        generation, positions = self._books.positions(self.tier, [name])
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
            if self._books.take_reads(self.tier, generation, [LogRead(found=skip, unreadable=(told,))], {}, behind=(name,)):
                self._places.go_on_at(name, error.log_start_offset)
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
