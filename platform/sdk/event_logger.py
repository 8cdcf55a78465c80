"""The application's side of the pipeline: typed events in, acknowledged records and honest books out.

`log` validates, encodes and buffers; it never waits for the network unless the buffer is full. What does not become an
acknowledged record is a loss with a name, counted in its window and reported: refused by its schema (then in quarantine, with
an address), dropped because the buffer was full, or given up by the sender. Source: the 2011 paper, section 4.
"""

import atexit
import itertools
import os
import socket
import uuid
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from ..audit.model.windows import WINDOW_MS
from ..audit.publisher import ProducerReporter
from ..client.connection.cluster import Cluster
from ..client.errors import BufferFull, FlushTimedOut, ProducerClosed, RecordTooLarge
from ..client.producer.delivery import Delivery
from ..client.producer.producer import Producer
from ..errors import HeadraceError
from ..runtime.clock import Clock, SystemClock
from ..runtime.logs import get_library_logger
from ..schema_registry.client import RegistryClient
from ..wire.batch.compression import Codec
from ..wire.quarantine_record import Origin, ProcessOrigin, QuarantineRecord, Stage, WindowFrom, head_of
from ..wire.schema_id import frame
from ..wire.topic_name import fault_of as topic_fault
from .errors import EventRefused, LoggerClosed, LoggerForked, NotSealed, TopicRefused
from .event_encoder import EventEncoder, event_time_ms_of
from .event_schema import EVENT_TIME, SERVER
from .logger_startup import LoggerStartup
from .open_windows import OpenWindows
from .pre_schema_buffer import PreSchemaBuffer
from .quarantine import RejectedEvents, payload_of

log = get_library_logger(__name__)

CLOSE_TIMEOUT_MS = 60_000
_REPORT_BUFFER_BYTES = 16 << 20
_SEAL_REFUSED_MS = 5_000
"""How long a logger whose start is refused waits for its seal, before the refusal is raised."""


class EventLogger:
    """Logs events of one schema to one topic. Any thread may log; one logger a process and topic is enough.

    `application` and `server_name` say who logs; with `instance` they name this run in the audit. Applications that log as
    things happen leave `lateness_ms` as it is: a window that is over for longer than that, and has nothing under way, is
    reported as done. A replay of old events sets it to None: then all windows are done at `close`, and none before.
    """

    def __init__(
        self,
        topic: str,
        schema: Mapping[str, Any] | str,
        *,
        bootstrap: str,
        registry_url: str,
        application: str,
        instance: str | None = None,
        server_name: str | None = None,
        window_ms: int = WINDOW_MS,
        lateness_ms: int | None = 60_000,
        buffer_bytes: int = 32 << 20,
        max_block_ms: int = 60_000,
        on_bad_event: Literal["quarantine", "raise"] = "quarantine",
        codec: Codec = Codec.NONE,
        linger_ms: int = 20,
        batch_bytes: int = 512 << 10,
        delivery_timeout_ms: int = 120_000,
        report_every_ms: int = 1_000,
        schema_cache: Path | None = None,
        start_timeout_ms: int = 5_000,
        clock: Clock | None = None,
    ) -> None:
        """Waits at most `start_timeout_ms` for registry and cluster; when they are away, events wait in the buffer.

        Raises `TopicRefused`, `SchemaRefused` and the registry's refusal (`IncompatibleSchema`, `InvalidSchema`).
        """
        if (fault := topic_fault(topic)) is not None:
            raise TopicRefused(f"{fault}: give the logger another topic")
        self.topic = topic
        self.server_name = server_name or socket.gethostname()
        self.instance = instance or f"{self.server_name}/{application}/{uuid.uuid4()}"
        self.max_block_ms = max_block_ms
        self.on_bad_event = on_bad_event
        self._clock = clock or SystemClock()
        self._process_id = os.getpid()
        self._encoder = EventEncoder(schema)
        self._windows = OpenWindows(window_ms)
        self._refusals = itertools.count()
        self.acknowledged_count = 0
        """Events that the live cluster has acknowledged so far; final after `close`."""
        self._early = PreSchemaBuffer(topic, buffer_bytes)
        self._cluster = Cluster(bootstrap, client_id=application)
        self._producer = Producer(
            self._cluster,
            codec=codec,
            linger_ms=linger_ms,
            batch_bytes=batch_bytes,
            buffer_bytes=buffer_bytes,
            max_block_ms=max_block_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            window_ms=window_ms,
            on_delivery=self._delivered,
            is_held=True,
            clock=self._clock,
        )
        # Reports and quarantine have a producer of their own: a buffer full of events must not keep the books waiting.
        self._side = Producer(
            self._cluster,
            linger_ms=5,
            buffer_bytes=_REPORT_BUFFER_BYTES,
            max_block_ms=1_000,
            delivery_timeout_ms=delivery_timeout_ms,
            window_ms=window_ms,
            on_delivery=self._side_delivered,
            clock=self._clock,
        )
        self._reporter = ProducerReporter(instance=self.instance, sender=self._side, clock=self._clock)
        self._quarantine = RejectedEvents(topic, self._side, self._windows, self._reporter.lost, self._clock)
        self._keeper = LoggerStartup(
            topic=topic,
            subject=f"{topic}-value",
            schema=self._encoder.text,
            record=self._encoder.record_name,
            registry=RegistryClient(registry_url, cache_folder=schema_cache),
            cluster=self._cluster,
            producer=self._producer,
            reporter=self._reporter,
            clock=self._clock,
            report_every_ms=report_every_ms,
            moved_past_ms=lambda: self._windows.moved_past_ms(self._clock.now_ms(), lateness_ms),
            on_schema_id=lambda schema_id: self._early.let_go(schema_id, self._send_early),
        )
        self._keeper.start()
        try:
            if not self._keeper.await_up(start_timeout_ms) and self._keeper.trouble is None:
                log.warning("logger_not_up_yet", topic=topic, waited_ms=start_timeout_ms, buffer_bytes=buffer_bytes)
        except HeadraceError as error:
            self._end_refused()
            # From here, not from the depth of the thread that met it: the message says what an application has to know.
            raise error.with_traceback(None) from None
        _open_loggers.add(self)

    def log(
        self,
        event: Mapping[str, Any],
        *,
        event_time_ms: int | None = None,
        key: bytes | None = None,
        max_block_ms: int | None = None,
    ) -> bool:
        """Return whether the event was taken; False: it was refused or dropped, and counted so.

        The event time is `event_time_ms`, else the event's own `event_time` (ms or an aware datetime), else now. Raises
        `EventRefused` for an event that does not fit only with `on_bad_event="raise"`; `LoggerClosed`, `LoggerForked` always.
        Waits for room in the buffer at most `max_block_ms` (the logger's own unless given here).
        """
        self._check_usable()
        now_ms = self._clock.now_ms()
        given = event_time_ms if event_time_ms is not None else event.get(EVENT_TIME) if isinstance(event, Mapping) else None
        timestamp_ms = now_ms if given is None else event_time_ms_of(given)
        try:
            if timestamp_ms is None:
                raise EventRefused(EVENT_TIME, given, "milliseconds since the epoch (1970 or later) or an aware datetime")
            if not isinstance(event, Mapping):
                raise EventRefused("", event, "a mapping of field names to values")
            filled = {SERVER: self.server_name, **event, EVENT_TIME: timestamp_ms}
            body = self._encoder.encode(filled)
        except EventRefused as error:
            own_ms = None if given is None else timestamp_ms
            self._refuse(event, error, own_ms, now_ms, max_block_ms)
            return False
        return self._take(body, timestamp_ms, key, self.max_block_ms if max_block_ms is None else max_block_ms)

    def quarantine(
        self,
        payload: bytes,
        *,
        code: str,
        reason: str,
        origin: Origin,
        window_start_ms: int,
        window_from: WindowFrom,
        stage: Stage = "sdk",
        max_block_ms: int | None = None,
    ) -> None:
        """Put something that could not become an event where it can be found, and count it as `quarantined` in its window."""
        self._check_usable()
        record = QuarantineRecord(
            topic=self.topic,
            stage=stage,
            code=code,
            reason=reason,
            origin=origin,
            window_start_ms=self._windows.start_of(window_start_ms),
            window_from=window_from,
            at_ms=self._clock.now_ms(),
            payload=head_of(payload),
        )
        self._quarantine.put(record, max_block_ms=self.max_block_ms if max_block_ms is None else max_block_ms)

    def flush(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Return once every event logged before this call is acknowledged, quarantined ones too.

        Raises `FlushTimedOut` (the sending goes on) and `DeliveryFailed` (some were given up, and are counted).
        """
        self._check_process()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        if not self._keeper.await_up(timeout_ms):
            raise FlushTimedOut(len(self._early) + self._producer.held_records, timeout_ms, self._keeper.trouble)
        self._producer.flush(max(0, deadline_ms - self._clock.monotonic_ms()))
        self._side.flush(max(0, deadline_ms - self._clock.monotonic_ms()))

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Flush, report, seal every window, end the threads. A second call does nothing.

        What is not acknowledged in time is counted as `send_failed` before the seal. Raises `NotSealed` when the seal did not
        reach the audit, else the first failure of the flush.
        """
        self._check_process()
        if not self._early.close():
            return
        _open_loggers.discard(self)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms

        def left_ms() -> int:
            return max(1_000, deadline_ms - self._clock.monotonic_ms())

        failures: list[HeadraceError] = []
        # While events are still held, a late start may let them go: most of the time is theirs, a second is kept for the seal.
        self._attempt(failures, lambda: self.flush(left_ms() - 1_000))
        self._attempt(failures, lambda: self._producer.close(left_ms()))
        for timestamp_ms in self._early.give_up():
            self._count_lost(timestamp_ms, "send_failed")
        self._keeper.stop()
        self._attempt(failures, lambda: self._side.flush(left_ms()))
        try:
            self._reporter.seal_and_close(left_ms())
        except HeadraceError as error:
            failures.insert(0, NotSealed(f"logger {self.instance} of {self.topic!r} ends unsealed: {error}"))
        self._attempt(failures, lambda: self._side.close(1_000))
        self._cluster.close()
        if failures:
            raise failures[0]

    def __enter__(self) -> "EventLogger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, body: bytes, timestamp_ms: int, key: bytes | None, max_block_ms: int) -> bool:
        self._windows.enter(timestamp_ms)
        try:
            if self._early.schema_id is None and self._early.keep(body, timestamp_ms, key, max_block_ms):
                return True
            assert self._early.schema_id is not None
            payload = frame(self._early.schema_id, body)
            self._producer.send(self.topic, payload, key=key, timestamp_ms=timestamp_ms, max_block_ms=max_block_ms)
        except (BufferFull, RecordTooLarge) as error:
            log.debug("event_dropped", topic=self.topic, reason=str(error))
            self._count_lost(timestamp_ms, "dropped_buffer_full")
            return False
        except ProducerClosed:
            self._windows.leave(timestamp_ms)
            raise LoggerClosed(f"this EventLogger of {self.topic!r} is closed: make a new one") from None
        return True

    def _send_early(self, payload: bytes, timestamp_ms: int, key: bytes | None) -> None:
        # They fit: the producer's buffer is as large as theirs and has been empty until now.
        self._producer.send(self.topic, payload, key=key, timestamp_ms=timestamp_ms, max_block_ms=0)

    def _refuse(self, event: Any, error: EventRefused, own_ms: int | None, now_ms: int, max_block_ms: int | None) -> None:
        window_ms = now_ms if own_ms is None else own_ms
        if self.on_bad_event == "raise":
            self._reporter.lost(self.topic, self._windows.start_of(window_ms), "refused_by_schema")
            raise error
        self.quarantine(
            payload_of(event),
            code="schema_mismatch",
            reason=str(error),
            origin=ProcessOrigin(instance=self.instance, sequence=next(self._refusals)),
            window_start_ms=window_ms,
            window_from="clock" if own_ms is None else "record",
            max_block_ms=max_block_ms,
        )

    def _delivered(self, delivery: Delivery) -> None:
        """A batch of events has come to its end; all of one window."""
        start_ms = self._windows.start_of(delivery.first_timestamp_ms)
        if delivery.error is None:
            self.acknowledged_count += delivery.record_count
            self._reporter.acknowledged(self.topic, delivery.partition, start_ms, delivery.record_count)
        else:
            self._reporter.lost(self.topic, start_ms, "send_failed", delivery.record_count)
        self._windows.leave(start_ms, delivery.record_count)

    def _side_delivered(self, delivery: Delivery) -> None:
        if delivery.topic == self._quarantine.address:
            self._quarantine.delivered(delivery)
        elif delivery.error is not None:
            self._reporter.delivery_failed()

    def _count_lost(self, timestamp_ms: int, name: str) -> None:
        self._reporter.lost(self.topic, self._windows.start_of(timestamp_ms), name)
        self._windows.leave(timestamp_ms)

    def _end_refused(self) -> None:
        """End what the start began. A run that was announced is sealed: else each window of the topic would wait for it."""
        self._early.close()
        self._keeper.stop()
        failures: list[HeadraceError] = []
        if self._keeper.is_announced:
            self._attempt(failures, lambda: self._reporter.seal_and_close(_SEAL_REFUSED_MS))
        self._attempt(failures, lambda: self._producer.close(0))
        self._attempt(failures, lambda: self._side.close(0))
        self._cluster.close()
        for error in failures:
            log.warning("refused_logger_not_sealed", topic=self.topic, instance=self.instance, reason=str(error))

    def _attempt(self, failures: list[HeadraceError], step: Callable[[], object]) -> None:
        try:
            step()
        except HeadraceError as error:
            failures.append(error)

    def _check_usable(self) -> None:
        self._check_process()
        if self._early.is_closed:
            raise LoggerClosed(f"this EventLogger of {self.topic!r} is closed: make a new one")
        self._keeper.check()

    def _check_process(self) -> None:
        if os.getpid() != self._process_id:
            raise LoggerForked(self._process_id, os.getpid())


_open_loggers: "weakref.WeakSet[EventLogger]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Seal what the application forgot to close."""
    for logger in list(_open_loggers):
        if logger._process_id != os.getpid():
            continue
        try:
            logger.close()
        except HeadraceError as error:
            log.error("logger_not_closed_at_exit", topic=logger.topic, reason=str(error))
