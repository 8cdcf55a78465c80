"""One sink's process: a member of a group reads, decodes, and has its destination take it, in this order: (1) the destination has
the records, (2) quarantine has the others, (3) the audit knows of both, (4) the group's offsets. A kill between two steps repeats
work, and loses nothing.

While the destination is away nothing more is read, so what is held stays bounded.
"""

import os
import socket
from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial

from ...audit.publisher import RangeReporter, see_to_audit_topic
from ...client.connection.cluster import Cluster
from ...client.consumer.group_consumer import GroupConsumer
from ...client.consumer.group_positions import GroupPositions
from ...client.consumer.stream_message import Message
from ...client.errors import ClientError, UnknownTopic
from ...client.fetch.fetched import CorruptRange, TopicPartition
from ...client.producer.producer import Producer
from ...errors import HeadraceError
from ...reader.decoding.event_decoder import EventDecoder, Undecodable
from ...reader.patience import patiently
from ...reader.quarantine import QuarantineLost, UnusableRecords
from ...runtime.backoff import Backoff
from ...runtime.clock import Clock, SystemClock
from ...runtime.lifecycle import Lifecycle, StopSignal
from ...runtime.logs import get_logger
from ...runtime.status import StatusFile
from ...schema_registry.client import RegistryClient
from ...wire.schema_id import unframe
from .counts import SinkCounts
from .records import SinkRecord
from .settings import SinkSettings
from .sink import Sink, SinkAway

log = get_logger(__name__)

SEND_TIMEOUT_MS = 5_000
FETCH_WAIT_MS = 200
STATUS_EVERY_MS = 1_000


class NotOnLive(HeadraceError):
    """A topic of the offline cluster has no original of its name."""

    def __init__(self, topic: str, live: str) -> None:
        super().__init__(
            f"the live cluster {live} has no topic {topic!r}: the mirror gave its copy another name, or it was deleted there. "
            "The audit has nothing to compare the sink with: run it with --no-audit"
        )


class Pump:
    """`run` until stopped. It owns the sink."""

    def __init__(self, settings: SinkSettings, sink: Sink, *, clock: Clock | None = None) -> None:
        self.settings = settings
        self._sink = sink
        self._clock = clock or SystemClock()
        self._status = StatusFile(settings.status_file, self._clock)
        self._cluster = Cluster(settings.bootstrap, client_id=f"{settings.group}.{settings.consumer_id}")
        self._quarantine = UnusableRecords(self._cluster, cluster=settings.cluster, clock=self._clock)
        self._decoder = EventDecoder(RegistryClient(settings.registry, cache_folder=settings.cache_folder))
        self._consumer = GroupConsumer(
            settings.bootstrap,
            settings.group,
            settings.topics,
            consumer_id=settings.consumer_id,
            queue_bytes=settings.queue_bytes,
            session_timeout_ms=settings.session_timeout_ms,
            fetch_wait_ms=FETCH_WAIT_MS,
            on_assigned=self._on_assigned,
            on_revoked=self._on_revoked,
            on_lost=self._on_lost,
            on_corrupt=self._on_corrupt,
            commit_on_revoke=False,
        )
        self._lifecycle = Lifecycle()
        self._audit = self._audit_cluster()
        self._reports = None if self._audit is None else Producer(self._audit, delivery_timeout_ms=SEND_TIMEOUT_MS)
        self._counts = None if self._reports is None else self._counts_of(self._reports)
        self._has_audit_topic = False
        self._begun_at: dict[TopicPartition, int] = {}
        """Owned partitions → records before this offset are in the destination already."""
        self._committed: dict[TopicPartition, int] = {}
        self._undecoded: dict[TopicPartition, HeadraceError] = {}
        """Partitions whose next record waits for the registry, each with its answer."""
        self._held: Counter[TopicPartition] = Counter()
        self._held_bytes = 0
        self._flush_at_ms = 0
        self._status_at_ms = 0
        self._stop: StopSignal | None = None
        self.written = 0
        self.refused = 0
        self.trouble: HeadraceError | None = None
        """Why nothing is written now."""

    def _audit_cluster(self) -> Cluster | None:
        address = self.settings.audit_bootstrap
        if address is None or address == self.settings.bootstrap:
            return None if address is None else self._cluster
        return Cluster(address, client_id=f"{self.settings.group}.{self.settings.consumer_id}-audit")

    def _counts_of(self, reports: Producer) -> SinkCounts:
        instance = f"{socket.gethostname()}/{self.settings.consumer_id}/{os.getpid()}"
        positions = GroupPositions(self._cluster)
        return SinkCounts(RangeReporter(tier=self.settings.tier, instance=instance, sender=reports, positions=positions))

    def run(self, stop: StopSignal) -> None:
        """Serve until `stop`; then flush once more and leave the group. Raises an error that is not retriable."""
        self._stop = stop
        self._status.write("starting")
        self._lifecycle.started("cluster", self._cluster.close)
        if self._audit is not None and self._audit is not self._cluster:
            self._lifecycle.started("the audit's cluster", self._audit.close)
        self._lifecycle.started("quarantine", lambda: self._quarantine.close(SEND_TIMEOUT_MS))
        if (reports := self._reports) is not None:
            self._lifecycle.started("reports", lambda: reports.close(SEND_TIMEOUT_MS))
        self._lifecycle.started("sink", self._sink.close)
        try:
            self._see_names()
            self._consumer.start()
            self._lifecycle.started("consumer", self._consumer.close)
            log.info("sink_ready", topics=self.settings.topics, group=self.settings.group)
            self._flush_at_ms = self._clock.monotonic_ms() + self.settings.flush_every_ms
            while not stop.is_set():
                message = self._consumer.poll(100)
                if message is not None and not self._take(message):
                    stop.wait(200)
                if self._is_due():
                    self._flush_until_done(stop)
                self._show()
        finally:
            self._status.write("stopping")
            # The consumer's close gives the partitions back: what is held is flushed then.
            self._lifecycle.stop()
            log.info("sink_stopped", written=self.written, refused=self.refused)

    def _see_names(self) -> None:
        """Raise NotOnLive for a topic that the offline cluster has and the live one has not."""
        if self._audit is None or not self.settings.is_behind_mirror:
            return
        for topic in self.settings.topics:
            if not patiently(partial(_has, self._audit, topic)) and patiently(partial(_has, self._cluster, topic)):
                raise NotOnLive(topic, self.settings.audit_bootstrap or "")

    # ---- records

    def _take(self, message: Message) -> bool:
        """Hold one record. Return False if it cannot be decoded now: it is then delivered again."""
        name = TopicPartition(message.topic, message.partition)
        if self._counts is not None and self._counts.is_full:
            self._consumer.seek(name, message.offset)
            return False
        self._quarantine.previous_ms = message.timestamp_ms
        # The destination has what stands before, and perhaps nobody has told of it yet, or put the others into quarantine.
        is_there = message.offset < self._begun_at.get(name, 0)
        try:
            event = self._decoder.decode(message.value)
            record = SinkRecord(message, unframe(message.value or b"")[0], event)
            if not is_there:
                self._sink.take(record)
        except Undecodable as fault:
            self.refused += 1
            self._quarantine.put_record(message, fault)
            self._undecoded.pop(name, None)
            self._count(message, is_held=False)
            return True
        except HeadraceError as error:
            if not error.retriable:
                raise
            if name not in self._undecoded:
                log.warning(
                    "partition_waits", topic=name.topic, partition=name.partition, offset=message.offset, error=str(error)
                )
            self._undecoded[name] = error
            self._consumer.seek(name, message.offset)
            return False
        self._undecoded.pop(name, None)
        self._count(message, is_held=True)
        if not is_there:
            self._held[name] += 1
            self._held_bytes += record.size_bytes
        return True

    def _count(self, message: Message, *, is_held: bool) -> None:
        if self._counts is not None:
            self._counts.count(message, is_held=is_held)

    def _on_corrupt(self, name: TopicPartition, bad: CorruptRange) -> None:
        self._quarantine.put_range(name, bad)
        if self._counts is not None:
            self._counts.skip(name, bad)

    # ---- partitions

    def _on_assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        later = self._sink.begin(starts)
        for name, start in starts.items():
            begin = later.get(name, start)
            if begin > start and begin > self._consumer.log_range(name)[1]:
                log.error(
                    "sink_ahead_of_log", topic=name.topic, partition=name.partition, at=begin, then="begins at the group's offset"
                )
                begin = start
            self._begun_at[name] = begin
            self._committed[name] = start
            # What the destination has is read again as far as nobody told of it: some of it may have to go to quarantine yet.
            told = self._told(name)
            read_from = max(start, min(begin, told or 0))
            if read_from > start:
                self._consumer.seek(name, read_from)
            if self._counts is not None:
                self._counts.begin(name, read_from, told)

    def _told(self, name: TopicPartition) -> int | None:
        """Return up to where the audit was told of the partition. Raises an error that lasts."""
        counts = self._counts
        return None if counts is None else patiently(lambda: counts.reported(name))

    def _on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        try:
            self._flush()
        except QuarantineLost:
            raise
        except HeadraceError as error:
            # Nothing was committed past what is written: the next owner writes the rest.
            log.error("flush_at_handover_failed", error=str(error))
        self._on_lost(partitions)

    def _on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._sink.end(partitions)
        if self._counts is not None:
            self._counts.end(partitions)
        for name in partitions:
            self._held.pop(name, None)
            self._begun_at.pop(name, None)
            self._undecoded.pop(name, None)
            self._committed.pop(name, None)

    # ---- flush

    def _is_due(self) -> bool:
        if self._counts is not None and self._counts.is_full:
            return True
        if self._sink.is_full or self._held.total() >= self.settings.most_records or self._held_bytes >= self.settings.most_bytes:
            return True
        return self._clock.monotonic_ms() >= self._flush_at_ms

    def _flush_until_done(self, stop: StopSignal) -> None:
        backoff, attempt = Backoff(longest_ms=10_000), 0
        while not stop.is_set():
            try:
                self._flush()
                break
            except HeadraceError as error:
                if not error.retriable and not isinstance(error, ClientError):
                    raise
                self._wait_because(error)
                if not isinstance(error, SinkAway):
                    break  # of the group or of quarantine: what the consumer has to say comes first
                if error.has_progressed:
                    attempt = 0
            self._show()
            stop.wait(backoff.wait_ms(attempt))
            attempt += 1
        self._flush_at_ms = self._clock.monotonic_ms() + self.settings.flush_every_ms

    def _flush(self) -> None:
        """Make what is held durable, in the order of the module's docstring. Raises the first failure."""
        if not self._consumer.may_act:
            return
        positions = {name: at for name, at in self._consumer.positions().items() if name in self._begun_at}
        for record, reason in self._sink.flush(positions):
            self.refused += 1
            self._held[record.partition] -= 1
            self._quarantine.put_record(record.message, Undecodable("refused_by_sink", reason))
            if self._counts is not None:
                self._counts.refuse(record.message)
        self.written += self._held.total()
        self._held.clear()
        self._held_bytes = 0
        self._quarantine.flush(SEND_TIMEOUT_MS)
        self._tell(positions)
        moved = {name: at for name, at in positions.items() if at > self._committed.get(name, -1)}
        if moved:
            self._consumer.commit(moved)
            self._committed |= moved
        if self.trouble is not None:
            log.info("going_on")
            self.trouble = None

    def _tell(self, positions: Mapping[TopicPartition, int]) -> None:
        if self._counts is None or self._audit is None:
            return
        if not self._has_audit_topic:
            see_to_audit_topic(self._audit, timeout_ms=SEND_TIMEOUT_MS)
            self._has_audit_topic = True
        self._counts.tell(positions, SEND_TIMEOUT_MS)

    # ---- what is shown

    def _wait_because(self, error: HeadraceError) -> None:
        if self.trouble is None:  # once for a series of failures
            log.warning("sink_waits", error=str(error))
        self.trouble = error

    def _show(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._status_at_ms:
            return
        self._status_at_ms = now_ms + STATUS_EVERY_MS
        trouble = self.trouble or self._consumer.trouble or next(iter(self._undecoded.values()), None)
        self._status.write(
            "ready" if trouble is None else "stalled",
            **({} if trouble is None else {"reason": str(trouble)}),
            group=self.settings.group,
            consumer_id=self.settings.consumer_id,
            written=self.written,
            refused=self.refused,
            held=self._held.total(),
            partitions={f"{name.topic}-{name.partition}": at for name, at in sorted(self._committed.items())},
        )


def _has(cluster: Cluster, topic: str) -> bool:
    try:
        return bool(cluster.partitions(topic))
    except UnknownTopic:
        return False
