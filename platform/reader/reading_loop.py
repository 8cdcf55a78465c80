"""One member of a group: it reads, decodes, and has a processor do the records, in this order: (1) the processor has done them,
(2) quarantine has the others, (3) the audit knows of both, (4) the group's offsets. A kill between two steps repeats work, and
loses nothing.

While the processor takes nothing, nothing more is read, so what is held stays bounded.
"""

import os
import socket
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ..audit.model.messages import CORRUPT, EXPIRED
from ..audit.publisher import RangeReporter, see_to_audit_topic
from ..audit.publisher.range_reporter import PositionBook
from ..client.connection.cluster import Cluster
from ..client.consumer.message_stream import Callbacks
from ..client.consumer.stream_message import Message
from ..client.consumer.zk_errors import StreamMisused
from ..client.errors import LOGIN_REFUSALS, ClientError
from ..client.fetch.fetched import CorruptRange, TopicPartition
from ..client.producer.producer import Producer
from ..errors import HeadraceError
from ..runtime.backoff import Backoff
from ..runtime.clock import Clock, SystemClock
from ..runtime.lifecycle import Lifecycle, StopSignal
from ..runtime.logs import get_logger
from ..runtime.status import StatusFile
from ..schema_registry.client import RegistryClient
from .coordination import coordination_of
from .counts import ReadCounts
from .decoding.event_decoder import EventDecoder, Undecodable
from .in_flight import InFlight
from .loop_settings import LoopSettings
from .names_on_live import see_names
from .patience import patiently
from .processor import PartitionsTaken, Processor, ProcessorAway
from .quarantine import QuarantineLost, UnusableRecords
from .record import EventRecord

if TYPE_CHECKING:
    from ..client.deduplication import Deduplicator

log = get_logger(__name__)

SEND_TIMEOUT_MS = 5_000
STATUS_EVERY_MS = 1_000
LOOK_EVERY_MS = 20
MOST_IN_FLIGHT = 10_000
"""Of records that are done out of order; with more, reading waits for the first of them."""
BEGIN_BACKOFF = Backoff(first_ms=100, longest_ms=5_000)
LONGEST_UNREPORTED_MS = 60_000
"""For so long a member that does not wait for the audit commits nothing that it could not report."""


class ReadingLoop:
    """`run` until stopped. It owns the processor."""

    def __init__(
        self,
        settings: LoopSettings,
        processor: Processor,
        *,
        clock: Clock | None = None,
        facts: "Callable[[ReadingLoop], Mapping[str, Any]] | None" = None,
        seen: "Deduplicator | None" = None,
    ) -> None:
        """`facts`: what the status file has beside state, group and member; None: what is done, held and committed. `seen`:
        records that it knows are left out; the processor is to be done with a record when it has taken it.
        """
        self.settings = settings
        self._seen = seen
        self._in_flight = InFlight()
        self._is_overdue = False  # a record is done elsewhere, and takes too long
        self._processor = processor
        self._facts = facts or _facts_of
        self._clock = clock or SystemClock()
        self._status = StatusFile(settings.status_file, self._clock)
        self._cluster = Cluster(settings.bootstrap, client_id=f"{settings.group}.{settings.consumer_id}")
        self._quarantine = UnusableRecords(self._cluster, cluster=settings.cluster, clock=self._clock)
        schemas = RegistryClient(settings.registry, cache_folder=settings.cache_folder)
        classes = {topic: settings.event_classes.get(topic) for topic in settings.topics}
        decoders = {one: EventDecoder(schemas, one) for one in set(classes.values())}
        self._decoders = {topic: decoders[one] for topic, one in classes.items()}
        self._coordination = coordination_of(
            self._cluster,
            Callbacks(
                on_assigned=self._on_assigned,
                on_revoked=self._on_revoked,
                on_lost=self._on_lost,
                on_corrupt=self._on_corrupt,
                on_stalled=self._on_stalled,
            ),
            bootstrap=settings.bootstrap,
            zookeeper=settings.zookeeper,
            group=settings.group,
            topics=settings.topics,
            consumer_id=settings.consumer_id,
            session_timeout_ms=settings.session_timeout_ms,
            queue_bytes=settings.queue_bytes,
            handover_ms=settings.max_handle_ms,
            stall_ms=settings.max_handle_ms if settings.leaves_when_stalled else None,
            auto_offset_reset=settings.auto_offset_reset,
        )
        self._consumer = self._coordination.consumer
        self._lifecycle = Lifecycle()
        self._audit = self._audit_cluster()
        self._reports = None if self._audit is None else Producer(self._audit, delivery_timeout_ms=SEND_TIMEOUT_MS)
        self._counts: ReadCounts | None = None
        self._has_audit_topic = False
        self._unreported_since_ms: int | None = None
        self._begun_at: dict[TopicPartition, int] = {}
        """Owned partitions → records before this offset are done already."""
        self._committed: dict[TopicPartition, int] = {}
        self._to_begin: dict[TopicPartition, int] = {}
        """Assigned partitions that the processor could not take over yet → the group's offset."""
        self._begin_trouble: ProcessorAway | None = None
        self._begin_attempts = 0
        self._begin_at_ms = 0
        self._is_refusal_open = False
        """Whether the processor refused records of which quarantine has acknowledged nothing yet."""
        self._undecoded: dict[TopicPartition, HeadraceError] = {}
        """Partitions whose next record waits for the registry, each with its answer."""
        self._held: Counter[TopicPartition] = Counter()
        self._held_count = self._held_bytes = 0
        self._flush_at_ms = self._status_at_ms = self._look_at_ms = 0
        self._stop: StopSignal | None = None
        self.read = 0
        """Records that were read, again or for the first time."""
        self.written = 0
        """Records that the processor has done."""
        self.refused = 0
        """Records that went to quarantine."""
        self.repeated = 0
        """Records that were done before this member read them."""
        self.given_back = 0
        """Records that were handled, or in hand, when others took their partitions: they are read again there."""
        self.skipped_offsets = 0
        """Offsets that were skipped: unreadable, expired, or behind which `seek` was to continue."""
        self._given: EventRecord | None = None
        """What `next` returned last, until it is taken or put back."""
        self.trouble: HeadraceError | None = None
        """Why nothing is done now."""
        self._trouble_since_ms: int | None = None

    def _audit_cluster(self) -> Cluster | None:
        address = self.settings.audit_bootstrap
        if address is None or address == self.settings.bootstrap:
            return None if address is None else self._cluster
        return Cluster(address, client_id=f"{self.settings.group}.{self.settings.consumer_id}-audit")

    def _counts_of(self, reports: Producer, positions: PositionBook) -> ReadCounts:
        instance = f"{socket.gethostname()}/{self.settings.consumer_id}/{os.getpid()}"
        return ReadCounts(RangeReporter(tier=self.settings.tier, instance=instance, sender=reports, positions=positions))

    def run(self, stop: StopSignal) -> None:
        """Serve until `stop`; then flush again and leave the group. Raises an error that is not retriable."""
        try:
            self.start(stop)
            while not stop.is_set():
                record = self.next()
                if record is not None:
                    self.process(record)
        finally:
            self.close()

    def next(self) -> EventRecord | None:
        """Return the next record that is to be processed, or None after at most about 100 ms. Flushes in between."""
        assert self._stop is not None
        self._between_records()
        if self._is_ordered:
            self._consumer.attend()
            self._stop.wait(20)
            return None
        message = self._consumer.poll(self.settings.poll_ms)
        if message is None:
            return None
        if self._to_begin and TopicPartition(message.topic, message.partition) in self._to_begin:
            self._put_back(message, self._begin_trouble or ProcessorAway("its positions are not loaded yet"))
            return None
        if self._seen is not None and not self._seen.is_new(message):
            self.read += 1
            self.repeated += 1
            self._count(message, is_held=True)
            return None
        record = self._decoded(message)
        if record is None:
            return None
        begun_at = self._begun_at.get(record.of, 0)
        if message.offset < begun_at:
            self.repeated += 1
            self._count(message, is_held=True)
            return None
        if begun_at:
            self._begun_at[record.of] = 0  # a log that begins again holds other records below it
        self._given = record
        return record

    def _between_records(self) -> None:
        """Do what is due. Hot: once per record. What goes by the clock alone is looked at every 20 ms."""
        assert self._stop is not None
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._look_at_ms and not self._is_ordered and not self._is_full():
            return
        self._consumer.alive(is_overdue=self._is_overdue)
        if self._is_due():
            self._flush_until_done(self._stop)
        if self._to_begin and self._clock.monotonic_ms() >= self._begin_at_ms and self._consumer.may_act:
            self._begin()
        self._settle()
        self._show()
        self._look_at_ms = min(self._flush_at_ms, self._status_at_ms, now_ms + LOOK_EVERY_MS)

    @property
    def in_work(self) -> int:
        """Records that were handed out or handled, and are not flushed yet."""
        return self._held.total() + self._in_flight.count + (self._given is not None)

    def process(self, record: EventRecord) -> None:
        """Have the processor take the record of the last `next`, or put it back where it cannot take it now."""
        try:
            self._processor.take(record)
        except ProcessorAway as error:
            self.read -= 1
            self._given = None
            self._put_back(record.message, error)
            return
        except BaseException:
            self.put_back(record)
            raise
        self.taken(record)

    def taken(self, record: EventRecord) -> None:
        """Count the record as one that the processor has, or has done."""
        self._given = None
        self._count_now(record.message, is_held=True)
        self._held[record.of] += 1
        self._held_count += 1
        self._held_bytes += record.size_bytes
        if self._seen is not None:
            self._seen.done(record.message)

    def put_back(self, record: EventRecord) -> None:
        """Take care that the record is not committed as done, but read again."""
        self.read -= 1
        self._given = None
        with suppress(StreamMisused):  # another member has the partition, and reads it
            self._consumer.seek(record.of, record.offset)

    def close(self) -> None:
        """Flush again, leave the group and end."""
        self._status.write("stopping")
        # The consumer's close gives the partitions back: what is held is flushed then.
        self._lifecycle.stop()

    def start(self, stop: StopSignal | None = None) -> None:
        """Join the group. Raises NotOnLive, ZooKeeperUnreachable and a broker's permanent refusal."""
        self._stop = stop or StopSignal()
        self._status.write("starting")
        self._lifecycle.started("cluster", self._cluster.close)
        if self._audit is not None and self._audit is not self._cluster:
            self._lifecycle.started("the audit's cluster", self._audit.close)
        self._lifecycle.started("quarantine", lambda: self._quarantine.close(SEND_TIMEOUT_MS))
        if (reports := self._reports) is not None:
            self._lifecycle.started("reports", lambda: reports.close(SEND_TIMEOUT_MS))
            self._lifecycle.started("positions", self._coordination.close_positions)
            self._counts = self._counts_of(reports, self._coordination.start_positions())
        self._lifecycle.started("processor", self._processor.close)
        if self._audit is not None and self.settings.is_behind_mirror:
            see_names(self._audit, self._cluster, self.settings)
        self._consumer.start()
        self._lifecycle.started("consumer", self._consumer.close)
        log.info("reader_ready", topics=self.settings.topics, group=self.settings.group)
        self._flush_at_ms = self._clock.monotonic_ms() + self.settings.flush_every_ms

    # ---- records

    def _decoded(self, message: Message) -> EventRecord | None:
        """Return the record; None where it went to quarantine, or cannot be decoded now: it is then delivered again."""
        name = TopicPartition(message.topic, message.partition)
        if self._counts is not None and self._counts.is_full:
            self._consumer.seek(name, message.offset)
            return None
        self._quarantine.previous_ms = message.timestamp_ms
        try:
            schema_id, event = self._decoders[message.topic].decode_framed(message.value)
        except Undecodable as fault:
            self.read += 1
            if self._has_reported(name, message.offset):
                self.repeated += 1
            else:
                self.refused += 1
                self._quarantine.put_record(message, fault)
            self._undecoded.pop(name, None)
            self._count(message, is_held=False)
            return None
        except HeadraceError as error:
            if not error.retriable:
                self._consumer.seek(name, message.offset)
                raise
            self._put_back(message, error, "registry_silent")
            return None
        self.read += 1
        self._undecoded.pop(name, None)
        return EventRecord(message, schema_id, event)

    def _put_back(self, message: Message, error: HeadraceError, event: str = "partition_waits") -> None:
        """Have the record delivered again, a little later."""
        assert self._stop is not None
        name = TopicPartition(message.topic, message.partition)
        if name not in self._undecoded:
            log.warning(event, topic=name.topic, partition=name.partition, offset=message.offset, error=str(error))
        self._undecoded[name] = error
        self._consumer.seek(name, message.offset)
        self._stop.wait(200)

    def _has_reported(self, name: TopicPartition, offset: int) -> bool:
        return self._counts is not None and self._counts.has_reported(name, offset)

    def _count(self, message: Message, *, is_held: bool) -> None:
        """Count a record when all before it are counted."""
        if self._in_flight.count:
            name = TopicPartition(message.topic, message.partition)
            self._in_flight.behind(name, message.offset, partial(self._count_now, message, is_held=is_held))
        else:
            self._count_now(message, is_held=is_held)

    def _count_now(self, message: Message, *, is_held: bool) -> None:
        if self._counts is not None:
            self._counts.count(message, is_held=is_held)

    def _on_corrupt(self, name: TopicPartition, bad: CorruptRange) -> None:
        if not self._has_reported(name, bad.to_offset - 1):
            self._quarantine.put_range(name, bad)
        reason = EXPIRED if bad.is_expired else CORRUPT
        self._in_flight.behind(name, bad.from_offset, partial(self._skip, name, bad.from_offset, bad.to_offset, reason))

    def _skip(self, name: TopicPartition, from_offset: int, to_offset: int, reason: str) -> None:
        self.skipped_offsets += to_offset - from_offset
        if self._counts is not None:
            self._counts.skip(name, from_offset, to_offset, reason)

    _is_ordered = False
    """An order of another thread waits: nothing is read before it is done."""

    def _settle(self) -> None:
        """Hear what is done elsewhere, and do what other threads want to be done between two records."""

    def _take_back(self, names: Collection[TopicPartition]) -> None:
        """Have what waits elsewhere read again, later."""

    def _await_hands(self, names: Collection[TopicPartition]) -> None:
        """Wait until what is done elsewhere is done, of these partitions."""

    def _on_stalled(self, after_ms: int) -> None:
        """On the membership's thread, while this one waits for the application."""

    # ---- partitions

    def _on_assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        self._to_begin |= starts
        self._begin()

    def _begin(self) -> None:
        """Have the processor take over the partitions that wait for it. Where it cannot, they wait on."""
        try:
            done_before = self._processor.begin(self._to_begin)
        except ProcessorAway as error:
            if self._begin_trouble is None:
                log.warning("partitions_wait", partitions=len(self._to_begin), error=str(error))
            self._begin_trouble = error
            self._begin_at_ms = self._clock.monotonic_ms() + BEGIN_BACKOFF.wait_ms(self._begin_attempts)
            self._begin_attempts += 1
            return
        starts, self._to_begin = self._to_begin, {}
        self._begin_trouble, self._begin_attempts = None, 0
        for name, start in starts.items():
            with suppress(StreamMisused):  # lost meanwhile: `_on_lost` comes next
                self._begin_partition(name, start, done_before.get(name))

    def _begin_partition(self, name: TopicPartition, start: int, done_before: int | None) -> None:
        """`start`: the group's offset. `done_before`: the processor's, which is right where they differ."""
        begin = start if done_before is None else done_before
        if done_before is not None and begin > patiently(lambda: self._consumer.log_range(name))[1]:
            log.error(
                "reader_ahead_of_log", topic=name.topic, partition=name.partition, at=begin, then="begins at the group's offset"
            )
            begin = start
        # What is done is read again where nobody reported it: some may have to go to quarantine.
        reported = self._reported(name)
        read_from = begin if begin < start else max(start, min(begin, reported or 0))
        if read_from != self._consumer.position(name):
            self._consumer.seek(name, read_from)
        self._begun_at[name] = begin if read_from < begin else 0
        self._committed[name] = start
        if self._counts is not None:
            self._counts.begin(name, read_from, reported)

    def _reported(self, name: TopicPartition) -> int | None:
        """Return up to where the audit has this tier's reports of the partition. Raises an error that lasts."""
        counts = self._counts
        return None if counts is None else patiently(lambda: counts.reported(name))

    def _on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._await_hands(partitions)
        try:
            self._flush()
        except QuarantineLost:
            raise
        except HeadraceError as error:
            # Nothing was committed past what is done: the next owner does the rest.
            log.error("flush_at_handover_failed", error=str(error))
        self._on_lost(partitions)

    def _on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._take_back(partitions)
        self.given_back += self._in_flight.drop(partitions)
        self._processor.end(partitions)
        if self._counts is not None:
            self._counts.end(partitions)
        for name in partitions:
            given_back = self._held.pop(name, 0)
            self.given_back += given_back
            self._held_count -= given_back
            self._begun_at.pop(name, None)
            self._to_begin.pop(name, None)
            self._undecoded.pop(name, None)
            self._committed.pop(name, None)

    def _let_go(self, error: PartitionsTaken) -> None:
        """Do nothing more of partitions that other members took over. If the group still counts them as this member's, they are
        begun again.
        """
        starts = {name: self._committed[name] for name in error.partitions if name in self._committed}
        log.error("partitions_let_go", partitions=sorted(map(str, error.partitions)), reason=str(error))
        self._on_lost(error.partitions)
        self._to_begin |= starts
        self._begin_at_ms = self._clock.monotonic_ms() + BEGIN_BACKOFF.wait_ms(0)

    # ---- flush

    def _is_due(self) -> bool:
        return self._is_full() or self._clock.monotonic_ms() >= self._flush_at_ms

    def _is_full(self) -> bool:
        if self._counts is not None and self._counts.is_full:
            return True
        settings = self.settings
        return self._processor.is_full or self._held_count >= settings.most_records or self._held_bytes >= settings.most_bytes

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
                if not isinstance(error, ProcessorAway):
                    break  # of the group or of quarantine: what the consumer has to say comes first
                if error.has_progressed:
                    attempt = 0
            self._show()
            self._consumer.alive()
            stop.wait(backoff.wait_ms(attempt))
            attempt += 1
        self._flush_at_ms = self._clock.monotonic_ms() + self.settings.flush_every_ms

    def _flush(self) -> None:
        """Make what is held durable, in the order of the module's docstring. Raises the first failure."""
        if not self._consumer.may_act:
            return
        positions = self.positions()
        for name in positions:
            if (first := self._in_flight.first(name)) is not None:
                positions[name] = first
        while True:
            try:
                if not self._process_held(positions):
                    break
            except PartitionsTaken as error:
                self._let_go(error)
                positions = {name: at for name, at in positions.items() if name in self._begun_at}
        self.written += self._held.total()
        self._held.clear()
        self._held_count = self._held_bytes = 0
        self._quarantine.flush(SEND_TIMEOUT_MS)
        self._report(positions)
        moved = {name: at for name, at in positions.items() if at > self._committed.get(name, -1)}
        if moved:
            self._consumer.commit(moved)
            self._committed |= moved
        if self.trouble is not None:
            log.info("going_on")
            self.trouble = None

    def _process_held(self, positions: Mapping[TopicPartition, int]) -> bool:
        """Return whether the processor refused records, which quarantine has now."""
        if self._is_refusal_open:
            self._quarantine.flush(SEND_TIMEOUT_MS)
            self._is_refusal_open = False
        refused = self._processor.flush(positions)
        for record, reason, code in refused:
            self.refused += 1
            self._held[record.of] -= 1
            self._quarantine.put_record(record.message, Undecodable(code, reason))
            if self._counts is not None:
                self._counts.refuse(record.message)
        self._is_refusal_open = bool(refused)
        return self._is_refusal_open

    def owns(self, name: TopicPartition) -> bool:
        """Return whether the partition is this member's; any thread."""
        return name in self._begun_at

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    def positions(self) -> dict[TopicPartition, int]:
        """Return the owned partitions and how far each is read; any thread."""
        return {name: at for name, at in self._consumer.positions().items() if name in self._begun_at}

    def _report(self, positions: Mapping[TopicPartition, int]) -> None:
        if self._counts is None or self._audit is None:
            return
        try:
            if not self._has_audit_topic:
                see_to_audit_topic(self._audit, timeout_ms=SEND_TIMEOUT_MS)
                self._has_audit_topic = True
            self._counts.tell(positions, SEND_TIMEOUT_MS)
        except HeadraceError as error:
            now_ms = self._clock.monotonic_ms()
            self._unreported_since_ms = self._unreported_since_ms or now_ms
            has_patience = not self._counts.is_full and now_ms - self._unreported_since_ms < LONGEST_UNREPORTED_MS
            if self.settings.waits_for_audit or has_patience:
                raise
            unreported = self._counts.give_up(positions)
            log.error("records_not_reported", tier=self.settings.tier, stretches=unreported, error=str(error), then="goes on")
        self._unreported_since_ms = None

    # ---- what is shown

    def _wait_because(self, error: HeadraceError) -> None:
        if self.trouble is None:  # once for a series of failures
            log.warning("reader_waits", error=str(error))
        self.trouble = error

    def _show(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._status_at_ms:
            return
        self._status_at_ms = now_ms + STATUS_EVERY_MS
        trouble = self._shown_trouble(now_ms)
        self._status.write(
            "ready" if trouble is None else "stalled",
            **({} if trouble is None else {"reason": str(trouble)}),
            group=self.settings.group,
            consumer_id=self.settings.consumer_id,
            **self._facts(self),
        )

    def _shown_trouble(self, now_ms: int) -> HeadraceError | None:
        """Return what it waits for, once that lasts."""
        found = self.trouble or self._begin_trouble or self._consumer.trouble or next(iter(self._undecoded.values()), None)
        if found is None:
            self._trouble_since_ms = None
            return None
        self._trouble_since_ms = now_ms if self._trouble_since_ms is None else self._trouble_since_ms
        lasts = now_ms - self._trouble_since_ms >= self.settings.stalled_after_ms
        return found if lasts or isinstance(found, LOGIN_REFUSALS) else None

    @property
    def status(self) -> StatusFile:
        return self._status

    @property
    def committed(self) -> Mapping[TopicPartition, int]:
        """The owned partitions, and the group's offset in each."""
        return self._committed

    @property
    def unreported(self) -> int:
        """Runs of records that wait to be reported to the audit."""
        return 0 if self._counts is None else self._counts.stretch_count


def _facts_of(loop: ReadingLoop) -> dict[str, Any]:
    return {
        "written": loop.written,
        "refused": loop.refused,
        "held": loop.in_work,
        "partitions": {f"{name.topic}-{name.partition}": at for name, at in sorted(loop.committed.items())},
    }
