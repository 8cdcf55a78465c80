"""A logger's events from its process to the cluster: producer, reporter and start-up, put together and taken apart in order."""

import threading
from collections import Counter
from collections.abc import Callable

from ...audit.model.messages import QUARANTINED, REFUSED, SEND_FAILED, Hold
from ...audit.model.windows import window_start_ms
from ...audit.publisher import ProducerReporter
from ...client.connection.cluster import Cluster
from ...client.connection.control_plane import import_messages
from ...client.errors import (
    BufferFull,
    ClientError,
    FlushTimedOut,
    ProducerClosed,
    ProducerReentered,
    RecordTooLarge,
    Unpromised,
)
from ...client.producer.appender import TopicAppender
from ...client.producer.delivery import Delivery, DeliveryEnd
from ...client.producer.pending import RECORD_OVERHEAD_BYTES
from ...client.producer.producer import Producer
from ...errors import HeadraceError
from ...runtime.clock import Clock
from ...runtime.logs import get_library_logger
from ...schema_registry.client import RegistryClient
from ...wire.quarantine_record import QuarantineRecord
from ...wire.schema_id import frame
from ..errors import LoggerClosed
from ..transport import UNCERTAIN, Ledger, LoggerRun
from . import refusals
from .closing import Ending
from .deferred import Deferred, DeferredEvent, DeferredLoss, Item
from .logger_startup import LoggerStartup
from .pre_schema_buffer import PreSchemaBuffer
from .promises import Promises
from .rejected_events import RejectedEvents
from .settings import DirectSettings

log = get_library_logger(__name__)

_REPORT_BUFFER_BYTES = 16 << 20
_SEAL_REFUSED_MS = 5_000
"""How long a logger whose start is refused waits for its seal, before the refusal is raised."""
_ENDS = {DeliveryEnd.REFUSED: REFUSED, DeliveryEnd.NEVER_SENT: SEND_FAILED, DeliveryEnd.UNCERTAIN: UNCERTAIN}


class DirectTransport:
    """The transport of a logger that sends for itself. `start` before the first use."""

    def __init__(self, run: LoggerRun, settings: DirectSettings, clock: Clock) -> None:
        import_messages()
        self._run = run
        self._topic = run.topic
        self._settings = settings
        self._clock = clock
        self._deferred = Deferred()
        self._counting = threading.RLock()
        self._acknowledged = 0
        self._dropped: Counter[str] = Counter()
        self._early = PreSchemaBuffer(run.topic, settings.buffer_bytes, run.window_ms)
        self._cluster = Cluster(settings.bootstrap, client_id=run.application, security=settings.client_config)
        self._producer = Producer(
            self._cluster,
            codec=settings.codec,
            acks=settings.acks,
            partitioner=settings.partitioner,
            linger_ms=settings.linger_ms,
            batch_bytes=settings.batch_bytes,
            buffer_bytes=settings.buffer_bytes,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            window_ms=run.window_ms,
            on_delivery=self._delivered,
            is_held=True,
            clock=clock,
        )
        # Reports and quarantine have a producer of their own: a buffer full of events must not keep the audit waiting.
        self._side = Producer(
            self._cluster,
            linger_ms=5,
            buffer_bytes=_REPORT_BUFFER_BYTES,
            max_block_ms=1_000,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            window_ms=run.window_ms,
            on_delivery=self._side_delivered,
            clock=clock,
        )
        self._reporter = ProducerReporter(
            instance=run.instance, sender=self._side, only_between_ms=run.only_between_ms, clock=clock
        )
        self._promises = Promises(
            self._producer.mutex,
            clock,
            topic=run.topic,
            window_ms=run.window_ms,
            is_live=run.lateness_ms is not None,
            only_between_ms=run.only_between_ms,
            is_strict=settings.is_strict,
            wake=lambda: self._startup.wake(),
        )
        self._producer.admission = self._promises
        self._quarantine = RejectedEvents(run.topic, self._side, self._count, clock)
        self._startup = LoggerStartup(
            topic=run.topic,
            subject=f"{run.topic}-value",
            schema=run.schema,
            record=run.record_name,
            registry=RegistryClient(settings.registry_url, cache_folder=settings.schema_cache),
            cluster=self._cluster,
            producer=self._producer,
            reporter=self._reporter,
            clock=clock,
            report_every_ms=settings.report_every_ms,
            moved_past_ms=self._moved_past_ms,
            holds=self._held,
            on_reported=self._promises.reported,
            on_schema_id=self._begin_sending,
            before_report=self._settle_deferred,
        )
        self._append: Callable[[bytes, int, bytes | None, int], None] | None = None
        """Where events go once the schema's id is known, until `close`."""
        self._owned: list[Callable[[], bool]] = [
            self._counting._is_owned,  # type: ignore[attr-defined]
            *(lock.is_owned for lock in (self._producer, self._side, self._early, self._reporter, self._quarantine)),
        ]
        """Whether the calling thread is inside one of the locks: a signal handler or a finalizer has interrupted it there."""

    def start_without_waiting(self) -> None:
        """Begin to connect; what the registry or the topic refuses is raised by a later call."""
        self._startup.start()

    def start(self) -> None:
        """Wait at most `start_timeout_ms` for registry and cluster; when they are away, events wait in the buffer.

        Raises `TopicRefused` and the registry's refusal; the run has ended then.
        """
        settings = self._settings
        self._startup.start()
        try:
            has_answer = self._startup.await_answer(settings.start_timeout_ms)
            if not self._startup.is_announced:
                self._promises.give_up_waiting()
            if not has_answer and self._startup.trouble is None:
                log.warning(
                    "logger_not_up_yet",
                    topic=self._topic,
                    waited_ms=settings.start_timeout_ms,
                    buffer_bytes=settings.buffer_bytes,
                )
        except HeadraceError:
            self._end_refused()
            raise

    @property
    def is_announced(self) -> bool:
        return self._startup.is_announced

    @property
    def take_may_block(self) -> bool:
        return False

    def has_room(self, size_bytes: int) -> bool:
        if self._append is None:
            return self._early.has_room(size_bytes)
        return self._producer.accumulator.used_bytes + size_bytes + RECORD_OVERHEAD_BYTES <= self._settings.buffer_bytes

    def must_wait(self, timestamp_ms: int) -> bool:
        return self._promises.may_wait_for(timestamp_ms)

    def take(self, body: bytes, timestamp_ms: int, key: bytes | None, max_block_ms: int) -> str | None:
        append = self._append
        try:
            if append is not None:
                append(body, timestamp_ms, key, max_block_ms)
            else:
                self._take_early(body, timestamp_ms, key, max_block_ms)
            if self._deferred.items:
                self._settle_deferred()
        except ProducerReentered:
            if len(body) > self._settings.buffer_bytes:
                self._lose(timestamp_ms, "dropped_too_large")
                return "dropped_too_large"
            return None if self._deferred.put(DeferredEvent(body, timestamp_ms, key)) else "dropped_buffer_full"
        except (BufferFull, RecordTooLarge, Unpromised) as error:
            name = refusals.loss_name(error)
            log.debug("event_dropped", topic=self._topic, reason=str(error))
            self._lose(timestamp_ms, name)
            return name
        except ProducerClosed:
            raise self._closed() from None
        return None

    def quarantine(self, record: QuarantineRecord, *, max_block_ms: int) -> None:
        self._check_usable()
        if self.is_inside():
            self._deferred.put(record)
        else:
            self._quarantine.put(record, max_block_ms=max_block_ms)

    def lost(self, window_start_ms: int, name: str, count: int = 1) -> None:
        self._check_usable()
        self._lose(window_start_ms, name, count)

    def flush(self, timeout_ms: int) -> None:
        """Raises `FlushTimedOut` (the sending continues) and `DeliveryFailed` (some were given up, and are counted)."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        if not self._startup.await_up(timeout_ms):
            raise FlushTimedOut(len(self._early) + self._producer.held_records, timeout_ms, self._startup.trouble)
        self._settle_deferred()
        self._producer.flush(max(0, deadline_ms - self._clock.monotonic_ms()))
        self._side.flush(max(0, deadline_ms - self._clock.monotonic_ms()))

    def close(self, timeout_ms: int) -> None:
        """What is not acknowledged in time is counted as `send_failed` before the seal. Raises `NotSealed` when the seal did not
        reach the audit, else the first failure of the flush. `closing` says how long it takes.
        """
        self._settle_deferred()
        if not self._early.close():
            return
        self._append = None
        end = Ending(self._clock, timeout_ms)
        if self._startup.is_announced or self.ledger().under_way:
            # While events are still held, a late start may let them go.
            end.attempt(lambda: self.flush(end.left_for_events_ms()))
        end.attempt(lambda: self._producer.close(end.left_for_events_ms()))
        for timestamp_ms in self._early.give_up():
            self._lose(timestamp_ms, SEND_FAILED)
        self._startup.stop(end.left_for_events_ms())
        self._settle_deferred()
        end.attempt(lambda: self._side.flush(end.left_ms()))
        end.seal(self._reporter, f"logger {self._run.instance} of {self._topic!r}", is_due=self._must_seal())
        end.attempt(lambda: self._side.close(end.left_ms()))
        self._cluster.close()
        end.check()

    def is_inside(self) -> bool:
        return any(is_owned() for is_owned in self._owned)

    def abandon_after_fork(self) -> None:
        self._producer.let_go()
        self._side.let_go()
        self._cluster.let_go()

    def ledger(self) -> Ledger:
        with self._counting:
            acknowledged, dropped = self._acknowledged, dict(self._dropped)
        quarantined = dropped.pop(QUARANTINED, 0)
        under_way = len(self._early) + self._producer.held_records + len(self._deferred)
        return Ledger(
            taken=acknowledged + under_way,
            acknowledged=acknowledged,
            journaled=0,
            quarantined=quarantined,
            dropped=dropped,
            unpromised=self._promises.unpromised_count,
        )

    def _take_early(self, body: bytes, timestamp_ms: int, key: bytes | None, max_block_ms: int) -> None:
        self._check_usable()
        if self._early.is_owned() or self._producer.is_owned():
            raise ProducerReentered("a signal handler or a finalizer interrupted the logger on its own thread")
        if self._early.schema_id is None:
            # Counted as under way before the promise is requested, so that its window is not released again.
            with self._early.entering(timestamp_ms):
                with self._producer.mutex:
                    is_promised = self._promises.admit(timestamp_ms, max_block_ms)
                if self._early.keep(body, timestamp_ms, key, max_block_ms):
                    self._promises.unpromised_count += not is_promised
                    return
        if self._append is None:
            raise self._closed()  # since it was asked
        self._append(body, timestamp_ms, key, max_block_ms)

    def _begin_sending(self, schema_id: int) -> None:
        """Send what has waited for the schema's id, and from then on everything."""
        append = TopicAppender(self._producer, self._topic, frame(schema_id, b"")).append

        # They fit: the producer's buffer is as large as theirs and has been empty until now.
        def send_directly() -> None:
            if not self._early.is_closed:
                self._append = append

        self._early.let_go(schema_id, lambda body, timestamp_ms, key: append(body, timestamp_ms, key, -1), send_directly)

    def _settle_deferred(self) -> None:
        """Put what was logged inside the logger where it belongs. Not from inside a lock."""
        if not self.is_inside():
            self._deferred.drain(self._settle, lambda count: self._lose(self._clock.now_ms(), "dropped_buffer_full", count))

    def _settle(self, item: Item) -> None:
        if isinstance(item, QuarantineRecord):
            self._quarantine.put(item, max_block_ms=0)
        elif isinstance(item, DeferredLoss):
            self._count(self._topic, self._start_of(item.timestamp_ms), item.name, item.event_count)
        else:
            try:
                self._take_early(*item, max_block_ms=0)
            except (ClientError, LoggerClosed) as error:
                self._count(self._topic, self._start_of(item.timestamp_ms), refusals.loss_name(error), 1)

    def _start_of(self, timestamp_ms: int) -> int:
        return window_start_ms(timestamp_ms, self._run.window_ms)

    def _held(self) -> tuple[Hold, ...]:
        """Return where events may be under way of which no report up to the next one tells, and let no other in."""
        window_ms = self._run.window_ms
        quarantined = self._side.first_window_ms(self._quarantine.address)
        with self._producer.mutex:
            # In the order in which events move on, as below.
            under_way = Counter(at // window_ms for at in self._deferred.times())
            under_way.update(self._early.windows_under_way())
            under_way.update(self._producer.windows_under_way(self._topic))
            if quarantined is not None:
                under_way[quarantined // window_ms] += 1
            return self._promises.compose(under_way)

    def _moved_past_ms(self) -> int | None:
        """Return the border up to which every window is over: none of its events is under way, and no more are expected. None for
        a replay.
        """
        if self._run.lateness_ms is None:
            return None
        border_ms = self._start_of(max(0, self._clock.now_ms() - self._run.lateness_ms))
        # In the order in which events move on: what leaves one of these before it is asked is found in the next.
        under_way = (
            self._deferred.first_ms(),
            self._early.first_ms(),
            self._producer.first_window_ms(self._topic),
            self._side.first_window_ms(self._quarantine.address),
        )
        return min([border_ms, *(self._start_of(at) for at in under_way if at is not None)])

    def _delivered(self, delivery: Delivery) -> None:
        """A batch of events has come to its end; all of one window."""
        with self._counting:
            if delivery.end is DeliveryEnd.ACKNOWLEDGED:
                self._acknowledged += delivery.record_count
            else:
                self._dropped[_ENDS[delivery.end]] += delivery.record_count
        self._reporter.ended(self._start_of(delivery.first_timestamp_ms), delivery)

    def _side_delivered(self, delivery: Delivery) -> None:
        if delivery.topic == self._quarantine.address:
            self._quarantine.delivered(delivery)
        elif delivery.error is not None:
            self._reporter.delivery_failed()

    def _lose(self, timestamp_ms: int, name: str, count: int = 1) -> None:
        if self.is_inside():
            self._deferred.put(DeferredLoss(timestamp_ms, name, count))
        else:
            self._count(self._topic, self._start_of(timestamp_ms), name, count)

    def _count(self, topic: str, window_start_ms: int, name: str, count: int) -> None:
        with self._counting:
            self._dropped[name] += count
        self._reporter.lost(topic, window_start_ms, name, count)

    def _end_refused(self) -> None:
        """End what the start began. A run that was announced is sealed: else each window of the topic would wait for it."""
        self._early.close()
        end = Ending(self._clock, _SEAL_REFUSED_MS)
        self._startup.stop(end.left_for_events_ms())
        end.seal(self._reporter, f"refused logger {self._run.instance}", is_due=self._startup.is_announced)
        end.attempt(lambda: self._producer.close(0))
        end.attempt(lambda: self._side.close(0))
        self._cluster.close()
        for error in end.failures:
            log.warning("refused_logger_not_sealed", topic=self._topic, instance=self._run.instance, reason=str(error))

    def _must_seal(self) -> bool:
        """Return whether the audit knows of this run, or is to learn of its losses."""
        with self._counting:
            return self._startup.is_announced or bool(self._dropped)

    def _check_usable(self) -> None:
        if self._early.is_closed:
            raise self._closed()
        self._startup.check()

    def _closed(self) -> LoggerClosed:
        return LoggerClosed(f"this EventLogger of {self._topic!r} is closed: make a new one")
