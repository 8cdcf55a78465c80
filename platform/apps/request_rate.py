"""The real-time service: a live count of requests per minute, in a group of processes that take over from each other exactly.

It reads a stream, decodes each event with its writer's schema, and about every second flushes in this order, so that a kill
between any two steps repeats work and loses or doubles nothing: (1) quarantine records acknowledged, (2) the audit's reports
acknowledged and the audit positions written, (3) the state file (minutes and offset in one rename), (4) the group's offset. Who
takes over begins at (4), finds by (3) which records are in the minutes already, and by (2) which ones the audit has already.
"""

import os
import socket
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeVar

from ..audit.publisher import RangeReporter
from ..client.admin import create_topic
from ..client.cluster import Cluster
from ..client.errors import ClientError, DeliveryFailed
from ..client.fetched import CorruptRange, TopicPartition
from ..client.producer import Producer
from ..client.stream_message import Message
from ..client.zk_consumer import ZooKeeperConsumer
from ..coordination.positions import AuditPositions
from ..coordination.session import Session
from ..errors import HeadraceError
from ..runtime.backoff import Backoff
from ..runtime.clock import Clock, SystemClock
from ..runtime.layout import AUDIT_TOPIC, WINDOW_MS
from ..runtime.lifecycle import Lifecycle, StopSignal
from ..runtime.logs import get_logger
from ..runtime.status import StatusFile
from ..schema_registry.client import RegistryClient
from ..wire.quarantine_record import LogOrigin, QuarantineRecord, Stage, WindowFrom, head_of, quarantine_topic
from .request_rate_decoding import EventDecoder, Undecodable
from .request_rate_partition import PartitionCounts
from .request_rate_settings import RequestRateSettings
from .request_rate_state import Overtaken, PartitionState, StateError, StateFolder

log = get_logger(__name__)

T = TypeVar("T")

STAGE: Stage = "consumer"
MOST_WINDOWS = 5_000
"""Windows that may wait to be reported; with more, and no way to report them, reading waits."""
SEND_TIMEOUT_MS = 5_000
"""How long one step of a flush waits: all of them together stay well below the time a member has to hand partitions over."""
TAKEOVER_PATIENCE_MS = 20_000
"""How long a takeover waits for a broker or ZooKeeper that is away; then the process ends, and its supervisor starts it anew."""


class QuarantineLost(HeadraceError):
    """A quarantine record was given up: nothing may be committed past it. Ended and started again, the service meets it again."""


class RequestRate:
    """One process of the service; `run` until stopped."""

    def __init__(self, settings: RequestRateSettings, *, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._status = StatusFile(settings.status_file)
        self._folder = StateFolder(settings.home / "request-rate")
        self._lifecycle = Lifecycle()
        self._session = Session(
            settings.zookeeper, session_timeout_ms=settings.session_timeout_ms, name=f"positions.{settings.consumer_id}"
        )
        self._live = Cluster(settings.bootstrap, client_id=f"{settings.group}.{settings.consumer_id}")
        self._audit = Cluster(settings.audit_bootstrap, client_id=f"{settings.tier}.{settings.consumer_id}")
        self._quarantine = Producer(self._live)
        self._reports = Producer(self._audit, delivery_timeout_ms=SEND_TIMEOUT_MS)
        self._reporter: RangeReporter | None = None
        self._decoder = EventDecoder(
            RegistryClient(settings.registry, cache_folder=settings.home / "run" / f"schemas-{settings.consumer_id}")
        )
        self._consumer = ZooKeeperConsumer(
            settings.bootstrap,
            settings.zookeeper,
            settings.group,
            [settings.topic],
            consumer_id=settings.consumer_id,
            session_timeout_ms=settings.session_timeout_ms,
            fetch_wait_ms=200,
            on_assigned=self._on_assigned,
            on_revoked=self._on_revoked,
            on_lost=self._on_lost,
            on_corrupt=self._on_corrupt,
            commit_on_revoke=False,
        )
        self._partitions: dict[TopicPartition, PartitionCounts] = {}
        self._last_timestamp_ms: int | None = None
        self._has_audit_topic = False
        self._flush_due_ms = 0
        self._is_waiting = False
        self._lost_quarantine: DeliveryFailed | None = None
        self.quarantined_count = 0

    def run(self, stop: StopSignal) -> None:
        """Serve until `stop`; then flush, give the partitions back, leave the group. Raises what cannot pass by itself."""
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
        self._lifecycle.started("live cluster", self._live.close)
        self._lifecycle.started("audit cluster", self._audit.close)
        self._lifecycle.started("quarantine", lambda: self._quarantine.close(SEND_TIMEOUT_MS))
        self._lifecycle.started("reports", lambda: self._reports.close(SEND_TIMEOUT_MS))
        self._session.start()
        self._lifecycle.started("positions", self._session.close)
        self._reporter = RangeReporter(
            tier=self._settings.tier,
            instance=f"{socket.gethostname()}/{self._settings.consumer_id}/{os.getpid()}",
            sender=self._reports,
            positions=AuditPositions(self._session),
        )
        self._consumer.start()
        self._lifecycle.started("consumer", self._consumer.close)
        log.info("request_rate_ready", topic=self._settings.topic, group=self._settings.group)

    # ---- records

    def _take(self, message: Message) -> bool:
        """Count one record; return False when it cannot be taken now: it is then delivered again."""
        name = TopicPartition(message.topic, message.partition)
        counts = self._partitions[name]
        if self._backlog() > MOST_WINDOWS and not self._flush_or_wait():
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
        self._last_timestamp_ms = message.timestamp_ms
        if fault is not None and is_new:
            origin = LogOrigin(
                cluster=self._settings.cluster, topic=message.topic, partition=message.partition, offset=message.offset
            )
            self._send_to_quarantine(fault.code, str(fault), origin, message.timestamp_ms, "record", message.value or b"")
        return True

    def _on_corrupt(self, name: TopicPartition, bad: CorruptRange) -> None:
        counts = self._partitions.get(name)
        if counts is None:
            return
        if bad.to_offset > counts.reported_to:
            window_from: WindowFrom = "clock" if self._last_timestamp_ms is None else "previous"
            near_ms = self._clock.now_ms() if self._last_timestamp_ms is None else self._last_timestamp_ms
            origin = LogOrigin(
                cluster=self._settings.cluster,
                topic=name.topic,
                partition=name.partition,
                offset=bad.from_offset,
                to_offset=bad.to_offset,
            )
            # How many records were there nobody can say, so none is counted: the books show them as missing from this tier on.
            self._send_to_quarantine("corrupt_batch", bad.reason, origin, near_ms, window_from, b"")
        counts.pass_over(bad.to_offset)

    def _send_to_quarantine(
        self, code: str, reason: str, origin: LogOrigin, timestamp_ms: int, window_from: WindowFrom, payload: bytes
    ) -> None:
        record = QuarantineRecord(
            topic=origin.topic,
            stage=STAGE,
            code=code,
            reason=reason,
            origin=origin,
            window_start_ms=timestamp_ms - timestamp_ms % WINDOW_MS,
            window_from=window_from,
            at_ms=self._clock.now_ms(),
            payload=head_of(payload),
        )
        self.quarantined_count += 1
        log.warning("record_quarantined", code=code, topic=origin.topic, partition=origin.partition, offset=origin.offset)
        self._quarantine.send(
            quarantine_topic(origin.topic), record.to_json(), key=record.key(), timestamp_ms=self._clock.now_ms()
        )

    # ---- partitions

    def _on_assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        assert self._reporter is not None
        for name, start in starts.items():
            state = self._state_of(name)
            begin = start
            if state is None:
                # No counts: begin where the log does, whatever was committed, or the minutes before would be missing for good.
                begin = min(start, _patiently(partial(self._consumer.log_range, name))[0])
            elif state.offset < start:
                begin = state.offset
            if begin != start:
                log.warning("counted_again", topic=name.topic, partition=name.partition, from_offset=begin, committed=start)
                self._consumer.seek(name, begin)
            reporter, topic, partition = self._reporter, name.topic, name.partition
            counts = PartitionCounts(
                name.topic,
                name.partition,
                begin=begin,
                state_offset=begin if state is None else max(begin, state.offset),
                minutes={} if state is None else state.minutes,
                reported_to=_patiently(partial(reporter.reported, topic, partition)),
            )
            self._partitions[name] = counts
            self._reporter.begin(*name, counts.reported_to)
            log.info("partition_taken", topic=name.topic, partition=name.partition, begin=begin, reported_to=counts.reported_to)
        self._flush_due_ms = 0

    def _state_of(self, name: TopicPartition) -> PartitionState | None:
        """Return the partition's state; None when there is none, or none that belongs to this log: such a file is set aside."""
        try:
            state = self._folder.load(*name)
            if state is None:
                return None
            end = _patiently(partial(self._consumer.log_range, name))[1]
            if state.offset <= end:
                return state
            reason = f"the state stands at {state.offset}, the log ends at {end}: another log's state, or the log lost its end"
        except StateError as error:
            reason = str(error)
        aside = self._folder.set_aside(*name)
        log.error("state_set_aside", topic=name.topic, partition=name.partition, now_at=str(aside), reason=reason)
        return None

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
        return sum(counts.window_count for counts in self._partitions.values())

    def _flush_or_wait(self) -> bool:
        self._flush_due_ms = self._clock.monotonic_ms() + self._settings.flush_every_ms
        try:
            self._flush()
        except HeadraceError as error:
            if not error.retriable and not isinstance(error, ClientError | StateError):
                raise
            self._wait_because("flush_postponed", error)
            return False
        if self._is_waiting:
            log.info("going_on")
            self._is_waiting = False
        self._write_status()
        return True

    def _flush(self) -> None:
        """Make everything taken so far durable, in the order that the module's docstring gives. Raises the first failure."""
        assert self._reporter is not None
        if not self._consumer.may_act:
            return  # not sure to own anything: whoever does, tells
        if not self._has_audit_topic:
            create_topic(self._audit, AUDIT_TOPIC, 1, {"retention.ms": "-1"}, timeout_ms=SEND_TIMEOUT_MS)
            self._has_audit_topic = True
        if self._lost_quarantine is None:
            try:
                self._quarantine.flush(SEND_TIMEOUT_MS)
            except DeliveryFailed as error:
                self._lost_quarantine = error
        if self._lost_quarantine is not None:  # from now on for good: the flush at the end must not commit past it either
            raise QuarantineLost(f"{self._lost_quarantine}: ending without a commit past it; started again, it is met again")
        for name, position in self._consumer.positions().items():
            if name in self._partitions:
                self._partitions[name].pass_over(position)  # what held no records at all
        moved = {name: counts for name, counts in self._partitions.items() if counts.position > counts.saved_to}
        positions = {name: counts.position for name, counts in moved.items()}
        for name, counts in moved.items():
            new, quarantined, redelivered = counts.take_tallies()
            self._reporter.add_counts(*name, counts.position, new, quarantined=quarantined, redelivered=redelivered)
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
        if not self._is_waiting:  # once a streak, not once a try
            log.warning(event, error=str(error))
        self._is_waiting = True

    def _write_status(self) -> None:
        self._status.write(
            "ready",
            group=self._settings.group,
            consumer_id=self._settings.consumer_id,
            topic=self._settings.topic,
            partitions={str(name.partition): counts.position for name, counts in sorted(self._partitions.items())},
            quarantined=self.quarantined_count,
        )


def _patiently(ask: Callable[[], T]) -> T:
    """Return the answer, passing failures waited out for `TAKEOVER_PATIENCE_MS`. Raises the last of them."""
    deadline = time.monotonic() + TAKEOVER_PATIENCE_MS / 1000
    attempt = 0
    while True:
        try:
            return ask()
        except HeadraceError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
            time.sleep(Backoff().wait_ms(attempt) / 1000)
            attempt += 1
