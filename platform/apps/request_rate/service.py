"""The real-time service: a live count of requests per minute, in a group of processes that take over from each other exactly.

It reads a stream and decodes each event with its writer's schema. About every second it flushes, in this order: (1) quarantine
records acknowledged, (2) the audit's reports acknowledged and the audit positions written, (3) the state file (minutes and offset
in one rename), (4) the group's offset. A kill between any two steps repeats work, and loses or doubles nothing. The next owner
begins at (4). It learns from (3) which records are in the minutes already, and from (2) which ones the audit has already.
"""

import os
import socket
from collections.abc import Collection, Mapping

from ...audit.model.messages import EXPIRED
from ...audit.publisher import RangeReporter, see_to_audit_topic
from ...client.connection.cluster import Cluster
from ...client.consumer.message_stream import Callbacks
from ...client.consumer.stream_message import Message
from ...client.errors import LOGIN_REFUSALS, ClientError
from ...client.fetch.fetched import CorruptRange, TopicPartition
from ...client.producer.producer import Producer
from ...errors import HeadraceError
from ...reader.coordination import coordination_of
from ...reader.decoding.event_decoder import EventDecoder, Undecodable
from ...reader.quarantine import QuarantineLost, UnusableRecords
from ...runtime.clock import Clock, SystemClock
from ...runtime.lifecycle import Lifecycle, StopSignal
from ...runtime.logs import get_logger
from ...runtime.monitoring.status_pages import StatusPages
from ...runtime.status import StatusFile
from ...schema_registry.client import RegistryClient
from .metrics import metrics
from .partition import PartitionCounts
from .settings import RequestRateSettings
from .state import Overtaken, StateError, StateFolder
from .takeover import take_over

log = get_logger(__name__)

MOST_STRETCHES = 50_000
"""Stretches of records that may wait to be reported. With more, and reporting impossible, reading pauses."""
STALLED_AFTER_MS = 60_000
"""A broker's restart and a registry's are over by then; the mirror says so after the same time."""
BEAT_EVERY_MS = 60_000
"""Promised to who reads the status file; mostly it is written at each flush. Longer than a flush of which every step waits."""
SEND_TIMEOUT_MS = 5_000
"""The longest wait of one step of a flush. All steps together stay well below the time a member has to hand partitions over."""


class RequestRate:
    """One process of the service; `run` until stopped."""

    def __init__(self, settings: RequestRateSettings, *, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._status = StatusFile(settings.status_file)
        self._folder = StateFolder(settings.home / "request-rate")
        self._lifecycle = Lifecycle()
        self._live = Cluster(settings.bootstrap, client_id=f"{settings.group}.{settings.consumer_id}")
        self._audit = Cluster(settings.audit_bootstrap, client_id=f"{settings.tier}.{settings.consumer_id}")
        self._quarantine = UnusableRecords(self._live, cluster=settings.cluster, clock=self._clock)
        self._reports = Producer(self._audit, delivery_timeout_ms=SEND_TIMEOUT_MS)
        self._reporter: RangeReporter | None = None
        self._decoder = EventDecoder(RegistryClient(settings.registry, cache_folder=settings.home / "schemas"))
        self._coordination = coordination_of(
            self._live,
            Callbacks(
                on_assigned=self._on_assigned,
                on_revoked=self._on_revoked,
                on_lost=self._on_lost,
                on_corrupt=self._on_corrupt,
            ),
            bootstrap=settings.bootstrap,
            zookeeper=settings.zookeeper,
            group=settings.group,
            topics=[settings.topic],
            consumer_id=settings.consumer_id,
            session_timeout_ms=settings.session_timeout_ms,
        )
        self._consumer = self._coordination.consumer
        self._partitions: dict[TopicPartition, PartitionCounts] = {}
        self._has_audit_topic = False
        self._flush_due_ms = 0
        self._record_count = 0
        self._waits_for: HeadraceError | None = None
        """Why records or counts are not got rid of now."""
        self._trouble_since_ms: int | None = None

    def run(self, stop: StopSignal) -> None:
        """Serve until `stop`; then flush, give the partitions back, leave the group. Raises an error that is not retriable."""
        self._status.write("starting")
        try:
            self._start()
            self._write_status()
            while not stop.is_set():
                message = self._consumer.poll(100)
                if message is not None and not self._take(message):
                    stop.wait(200)
                if self._clock.monotonic_ms() >= self._flush_due_ms:
                    self._flush_or_wait()
        finally:
            self._status.write("stopping")
            self._lifecycle.stop()

    def _start(self) -> None:
        pages = StatusPages("consumer", self._settings.pages, self._status, self._clock, metrics)
        pages.start()
        self._lifecycle.started("metrics and health", pages.stop)
        self._lifecycle.started("live cluster", self._live.close)
        self._lifecycle.started("audit cluster", self._audit.close)
        self._lifecycle.started("quarantine", lambda: self._quarantine.close(SEND_TIMEOUT_MS))
        self._lifecycle.started("reports", lambda: self._reports.close(SEND_TIMEOUT_MS))
        positions = self._coordination.start_positions()
        self._lifecycle.started("positions", self._coordination.close_positions)
        self._reporter = RangeReporter(
            tier=self._settings.tier,
            instance=f"{socket.gethostname()}/{self._settings.consumer_id}/{os.getpid()}",
            sender=self._reports,
            positions=positions,
        )
        self._consumer.start()
        self._lifecycle.started("consumer", self._consumer.close)
        log.info("request_rate_ready", topic=self._settings.topic, group=self._settings.group)

    # ---- records

    def _take(self, message: Message) -> bool:
        """Count one record. Return False if it cannot be counted now: it is then delivered again."""
        name = TopicPartition(message.topic, message.partition)
        counts = self._partitions[name]
        if self._backlog() > MOST_STRETCHES and not self._flush_or_wait():
            self._consumer.seek(name, message.offset)
            return False
        fault: Undecodable | None = None
        try:
            if counts.is_news(message.offset):
                self._decoder.decode(message.value)
        except Undecodable as error:
            fault = error
        except HeadraceError as error:
            if not error.retriable:
                raise
            self._wait_because("registry_silent", error)
            self._consumer.seek(name, message.offset)
            return False
        is_new = counts.count(message.offset, message.next_offset, message.timestamp_ms, is_usable=fault is None)
        self._quarantine.previous_ms = message.timestamp_ms
        self._record_count += 1
        if fault is not None and is_new:
            self._quarantine.put_record(message, fault)
        return True

    def _on_corrupt(self, name: TopicPartition, bad: CorruptRange) -> None:
        counts = self._partitions.get(name)
        if counts is None:
            return
        if bad.to_offset > counts.reported_to:
            self._quarantine.put_range(name, bad)
        counts.skip(bad.from_offset, bad.to_offset, EXPIRED if bad.is_expired else "corrupt")

    # ---- partitions

    def _on_assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        assert self._reporter is not None
        for name, start in starts.items():
            counts = take_over(name, start, consumer=self._consumer, folder=self._folder, reporter=self._reporter)
            self._partitions[name] = counts
            self._reporter.begin(*name, counts.reported_to)
        self._flush_due_ms = 0

    def _on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        try:
            self._flush()
        except QuarantineLost:
            raise
        except HeadraceError as error:
            # Nothing was committed past what is durable: the next owner counts the rest.
            log.error("flush_at_handover_failed", error=str(error))
        self._on_lost(partitions)

    def _on_lost(self, partitions: Collection[TopicPartition]) -> None:
        assert self._reporter is not None
        for name in partitions:
            self._partitions.pop(name, None)
            self._reporter.end(*name)

    # ---- flush

    def _backlog(self) -> int:
        return sum(counts.stretch_count for counts in self._partitions.values())

    def _flush_or_wait(self) -> bool:
        self._flush_due_ms = self._clock.monotonic_ms() + self._settings.flush_every_ms
        try:
            self._flush()
        except HeadraceError as error:
            if not error.retriable and not isinstance(error, ClientError | StateError):
                raise
            self._wait_because("flush_postponed", error)
            self._write_status()
            return False
        if self._waits_for is not None:
            log.info("going_on")
            self._waits_for = None
        self._write_status()
        return True

    def _flush(self) -> None:
        """Make all counted records durable, in the order of the module's docstring. Raises the first failure."""
        assert self._reporter is not None
        if not self._consumer.may_act:
            return  # not sure to own anything: the owner reports
        if not self._has_audit_topic:
            see_to_audit_topic(self._audit, timeout_ms=SEND_TIMEOUT_MS)
            self._has_audit_topic = True
        self._quarantine.flush(SEND_TIMEOUT_MS)
        # First what an earlier flush could not report: while that fails, what was counted since stays in the bounded backlog.
        self._reporter.publish(SEND_TIMEOUT_MS)
        for name, position in self._consumer.positions().items():
            if name in self._partitions:
                self._partitions[name].pass_over(position)  # offsets that held no records
        moved = {name: counts for name, counts in self._partitions.items() if counts.position > counts.saved_to}
        positions = {name: counts.position for name, counts in moved.items()}
        for name, counts in moved.items():
            held, quarantined, redelivered, skipped = counts.take_tallies()
            self._reporter.add_records(
                *name, counts.position, held, quarantined=quarantined, redelivered=redelivered, skipped=skipped
            )
        self._reporter.publish(SEND_TIMEOUT_MS)
        for name, counts in moved.items():
            counts.reported_to = max(counts.reported_to, positions[name])
            try:
                self._folder.save(counts.state())
            except Overtaken as error:
                log.warning("partition_overtaken", error=str(error))
                del positions[name]
        self._consumer.commit(positions)
        for name, position in positions.items():
            moved[name].saved_to = position

    def _wait_because(self, event: str, error: HeadraceError) -> None:
        if self._waits_for is None:  # once for a series of failures, not for each attempt
            log.warning(event, error=str(error))
        self._waits_for = error

    def _trouble(self) -> HeadraceError | None:
        """Return what the service waits for, if it should be told: a refused login at once, the rest after a restart's time."""
        found = self._consumer.trouble or self._waits_for
        if found is None:
            self._trouble_since_ms = None
            return None
        now_ms = self._clock.monotonic_ms()
        self._trouble_since_ms = now_ms if self._trouble_since_ms is None else self._trouble_since_ms
        is_told = isinstance(found, LOGIN_REFUSALS) or now_ms - self._trouble_since_ms >= STALLED_AFTER_MS
        return found if is_told else None

    def _write_status(self) -> None:
        trouble = self._trouble()
        self._status.write(
            "ready" if trouble is None else "stalled",
            **({} if trouble is None else {"reason": str(trouble)}),
            group=self._settings.group,
            consumer_id=self._settings.consumer_id,
            topic=self._settings.topic,
            partitions={str(name.partition): counts.position for name, counts in sorted(self._partitions.items())},
            quarantined=self._quarantine.count,
            records=self._record_count,
            unsaved_offsets=sum(counts.position - counts.saved_to for counts in self._partitions.values()),
            backlog=self._backlog(),
            beat_every_ms=BEAT_EVERY_MS,
        )
