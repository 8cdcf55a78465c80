"""The application's side of the pipeline: typed events in, acknowledged records out, and a report of each batch to the audit.

`log` validates, encodes and buffers; it never waits for the network unless the buffer is full. What does not become an
acknowledged record is a loss with a name, counted in its window and reported: refused by its schema (then in quarantine, with
an address), dropped because the buffer was full or the event too large for it, refused by the cluster, or given up by the sender.

An event is *handed over* once `log` has returned True and the audit topic has acknowledged this logger's announcement
(`is_announced`). From then on it is stored, or its loss is reported by name, or the audit shows this run as one that never said
all. The announcement is the first thing that a logger does. If the cluster is away, `log` takes events before it is made. If the
process dies then, those events were not handed over: it is unknown of the run, and no window waits for it.
Source: the 2011 paper, section 4.
"""

import asyncio
import itertools
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..audit.model.messages import SAMPLED
from ..audit.model.windows import WINDOW_MS
from ..audit.model.windows import window_start_ms as window_start_ms_of
from ..client.producer.accumulator import Partitioner
from ..client.producer.partitioner import partition_for_key
from ..client.security.chosen import ClientConfig
from ..errors import HeadraceError
from ..runtime.clock import Clock, SystemClock
from ..runtime.logs import get_library_logger
from ..schema_registry.client.cache_folder import DEFAULT, Folder
from ..schema_registry.model.column_names import clash_of_schema
from ..wire.batch.compression import Codec
from ..wire.quarantine_record import Origin, ProcessOrigin, QuarantineRecord, Stage, WindowFrom, head_of
from ..wire.topic_name import fault_of as topic_fault
from . import capturing, lifetime
from .direct import MOST_WAIT_MS, DirectSettings, DirectTransport
from .encoding import EventEncoder, event_time_ms_of
from .errors import EventRefused, LoggerMisconfigured, TopicRefused
from .event_key import Key, key_function
from .event_schema import EVENT_TIME
from .forms.event_form import Described, form_of
from .journal import JournalSettings, JournalTransport
from .late_transport import LateTransport
from .refused_event import payload_of
from .transport import Ledger, LoggerRun, Transport

log = get_library_logger(__name__)

FLUSH_TIMEOUT_MS = 60_000
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05
"""Between two looks of `alog` for room."""


class EventLogger:
    """Logs events of one schema to one topic. Any thread may log; one logger a process and topic is enough.

    `application` and `server_name` say who logs; with `instance` they name this run in the audit. Applications that log as
    things happen leave `lateness_ms` as it is: a window that is over for longer than that, and has nothing under way, is
    reported as done. A replay of old events sets it to None: then all windows are done at `close`, and none before. It gives
    `only_between_ms`, the first instant of its events and the first instant behind them: windows outside do not wait for it, and
    an event outside is refused.

    After a fork the child's logger continues as a run of its own, from its first event on; what the parent holds is the parent's.
    A logger that is not closed is closed at the process's end. Each close takes `exit_timeout_ms` at most.
    """

    def __init__(
        self,
        topic: str,
        schema: Described,
        *,
        application: str,
        bootstrap: str | None = None,
        registry_url: str | None = None,
        client_config: "ClientConfig | None" = None,
        journal: Path | JournalSettings | None = None,
        instance: str | None = None,
        server_name: str | None = None,
        lateness_ms: int | None = 60_000,
        only_between_ms: tuple[int, int] | None = None,
        key: Key | None = None,
        partitioner: Partitioner = partition_for_key,
        acks: Literal["all", 1] = "all",
        buffer_bytes: int = 32 << 20,
        max_block_ms: int = 60_000,
        strict: bool = False,
        on_bad_event: Literal["quarantine", "raise"] = "quarantine",
        codec: Codec = Codec.NONE,
        linger_ms: int = 20,
        batch_bytes: int = 512 << 10,
        delivery_timeout_ms: int = 120_000,
        report_every_ms: int = 1_000,
        schema_cache: Folder = DEFAULT,
        start_timeout_ms: int = 2_000,
        exit_timeout_ms: int = 5_000,
        clock: Clock | None = None,
    ) -> None:
        """Without a `journal` it sends by itself, to `bootstrap`, with the schema registered at `registry_url`. It waits for both
        at most `start_timeout_ms`, to tell of a schema or topic that is refused, and no longer once one of them is found
        unreachable; then events wait in the buffer. With a journal (its root, or all settings) it
        needs no network, and `headrace agent` ships what it takes; key, lateness and times are the journal's too, the settings of
        sending are the agent's.

        `client_config`: how to speak to the cluster (TLS, SASL), as the path of a properties file or as its names and values;
        None: what HEADRACE_CLIENT_CONFIG names, else in the clear.

        `strict`: refuse events of windows of which the audit topic has not acknowledged that this run may hold them. By default
        they are taken and counted as `unpromised`. With a journal it has no effect: the agent's enrolment is the promise.

        `key`: a field's name, or a function of the event, for calls of `log` that give none.

        Raises `TopicRefused`, `SchemaRefused`, `LoggerMisconfigured`, `JournalRefused`, `ClientConfigRefused`, and the registry's
        refusal (`IncompatibleSchema`, `InvalidSchema`).
        """
        if (fault := topic_fault(topic)) is not None:
            raise TopicRefused(f"{fault}: give the logger another topic")
        self.topic = topic
        self.server_name = server_name or socket.gethostname()
        self.max_block_ms = max_block_ms
        self.on_bad_event = on_bad_event
        self.exit_timeout_ms = exit_timeout_ms
        self.close_error: HeadraceError | None = None
        """What `close` met and did not raise: `NotSealed`, else why events were given up. None: the audit knows of all of it."""
        self._clock = clock or SystemClock()
        form = form_of(schema)
        self._to_mapping = form.to_mapping
        self._encoder = EventEncoder(form.schema, self.server_name)
        self._key_of = None if key is None else key_function(key)
        self._only_between_ms = only_between_ms
        self._window_ms = WINDOW_MS
        self._refusals = itertools.count()
        self._run = LoggerRun(
            topic=topic,
            schema=self._encoder.text,
            record_name=self._encoder.record_name,
            application=application,
            instance=instance or f"{self.server_name}/{application}/{uuid.uuid4()}",
            server_name=self.server_name,
            lateness_ms=lateness_ms,
            only_between_ms=only_between_ms,
            window_ms=WINDOW_MS,
        )
        self._make: Callable[[LoggerRun], DirectTransport | JournalTransport]
        if journal is not None:
            kept = journal if isinstance(journal, JournalSettings) else JournalSettings(root=journal)
            self._make = partial(JournalTransport, settings=kept, clock=self._clock)
        elif bootstrap is None or registry_url is None:
            raise LoggerMisconfigured(
                f"the logger of {topic!r} has neither a journal nor both bootstrap and registry_url: give it `journal=`, or the "
                "addresses of the cluster and of the schema registry"
            )
        else:
            sending = DirectSettings(
                bootstrap=bootstrap,
                registry_url=registry_url,
                client_config=client_config,
                buffer_bytes=buffer_bytes,
                codec=codec,
                acks=-1 if acks == "all" else acks,
                partitioner=partitioner,
                linger_ms=linger_ms,
                batch_bytes=batch_bytes,
                delivery_timeout_ms=delivery_timeout_ms,
                is_strict=strict,
                report_every_ms=report_every_ms,
                schema_cache=schema_cache,
                start_timeout_ms=start_timeout_ms,
            )
            self._make = partial(DirectTransport, settings=sending, clock=self._clock)
        self._transport: Transport
        if capturing.transport_for is not None:
            self._transport = capturing.transport_for(self._run)
            return
        transport = self._make(self._run)
        try:
            transport.start()
        except HeadraceError as error:
            # From here, not from the depth of the thread that met it: the message says what an application has to know.
            raise error.with_traceback(None) from None
        if fault := clash_of_schema(self._encoder.text):
            log.warning(
                "schema_is_no_table", topic=topic, reason=f"each load will put every event of it into quarantine: {fault}"
            )
        self._transport = transport
        lifetime.watch(self)
        if journal is None:
            lifetime.warn_of_sigterm()

    @property
    def instance(self) -> str:
        """Return this run's name in the audit; another one in a forked child."""
        return self._run.instance

    def log(
        self,
        event: Any,
        *,
        event_time_ms: int | None = None,
        key: bytes | None = None,
        max_block_ms: int | None = None,
    ) -> bool:
        """Return whether the event was taken; False: it was refused or dropped, and counted so.

        The event time is `event_time_ms`, else the event's own `event_time` (ms or an aware datetime), else now. Raises
        `EventRefused` for an event that does not fit only with `on_bad_event="raise"`; `LoggerClosed` always. Waits for room in
        the buffer at most `max_block_ms` (the logger's own unless given here).
        """
        wait_ms = self.max_block_ms if max_block_ms is None else max_block_ms
        encoded = self._encoded(event, event_time_ms, key, wait_ms)
        return encoded is not None and self._transport.take(*encoded, wait_ms) is None

    async def alog(
        self,
        event: Any,
        *,
        event_time_ms: int | None = None,
        key: bytes | None = None,
        max_block_ms: int | None = None,
    ) -> bool:
        """As `log`, for a coroutine: it awaits room in the buffer, and the event loop continues meanwhile."""
        encoded = self._encoded(event, event_time_ms, key, 0)
        if encoded is None:
            return False
        wait_ms = self.max_block_ms if max_block_ms is None else max_block_ms
        if self._transport.take_may_block:
            return await asyncio.to_thread(self._transport.take, *encoded, wait_ms) is None
        size_bytes = len(encoded[0]) + len(encoded[2] or b"")
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        pause_s = _SHORTEST_PAUSE_S
        promised_by_ms = self._clock.monotonic_ms() + min(wait_ms, MOST_WAIT_MS)
        while self._clock.monotonic_ms() < promised_by_ms and self._transport.must_wait(encoded[1]):
            await asyncio.sleep(pause_s)
        while not self._transport.has_room(size_bytes) and self._clock.monotonic_ms() < deadline_ms:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return self._transport.take(*encoded, 0) is None

    def sampled(self, count: int = 1, *, event_time_ms: int | None = None) -> None:
        """Count events of one time (now, unless given) that the application chose not to log.

        Their window then says how many, and is ACCOUNTED. Raises `EventRefused` for a time or a number that cannot be.
        """
        given = self._clock.now_ms() if event_time_ms is None else event_time_ms
        timestamp_ms = event_time_ms_of(given)
        first, end = self._only_between_ms or (0, None)
        if timestamp_ms is None or timestamp_ms < first or (end is not None and timestamp_ms >= end):
            raise EventRefused(EVENT_TIME, given, "milliseconds since the epoch, within the times that this logger announced")
        if type(count) is not int or count < 1:
            raise EventRefused("count", count, "a number of events from 1 on")
        self._transport.lost(window_start_ms_of(timestamp_ms, self._window_ms), SAMPLED, count)

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
        record = QuarantineRecord(
            topic=self.topic,
            stage=stage,
            code=code,
            reason=reason,
            origin=origin,
            window_start_ms=window_start_ms_of(window_start_ms, self._window_ms),
            window_from=window_from,
            at_ms=self._clock.now_ms(),
            payload=head_of(payload),
        )
        self._transport.quarantine(record, max_block_ms=self.max_block_ms if max_block_ms is None else max_block_ms)

    def flush(self, timeout_ms: int = FLUSH_TIMEOUT_MS) -> None:
        """Return once every event logged before this call is acknowledged, quarantined ones too.

        Raises `FlushTimedOut` (the sending continues) and `DeliveryFailed` (some were given up, and are counted).
        """
        self._transport.flush(timeout_ms)

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush, report, seal every window, end the threads, within `timeout_ms` (else `exit_timeout_ms`).

        A second call does nothing. What is not acknowledged in time is counted as `send_failed` before the seal. Raises nothing:
        the line `logger_closed`, `ledger()` and `close_error` say what was not sent or not sealed.
        """
        is_open = lifetime.forget(self)
        try:
            self._transport.close(self.exit_timeout_ms if timeout_ms is None else timeout_ms)
        except HeadraceError as error:
            self.close_error = error.with_traceback(None)
        if is_open:
            self._tell_end()

    def ledger(self) -> Ledger:
        """Return what became of the events so far."""
        return self._transport.ledger()

    @property
    def acknowledged_count(self) -> int:
        """Return how many events the live cluster has acknowledged so far; final after `close`."""
        return self._transport.ledger().acknowledged

    @property
    def is_announced(self) -> bool:
        """Return whether the audit knows of this logger: events that `log` took are handed over."""
        return self._transport.is_announced

    def __enter__(self) -> "EventLogger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_inside(self) -> bool:
        """Return whether the calling thread was interrupted inside this logger."""
        return self._transport.is_inside()

    def restart_after_fork(self) -> None:
        """Begin a run of this process's own, at its first event. Called in the child of a fork, before anything else."""
        self._transport.abandon_after_fork()
        self._run = replace(self._run, instance=f"{self.server_name}/{self._run.application}/{uuid.uuid4()}")
        self._refusals = itertools.count()
        self._transport = LateTransport(self.topic, self._begin_in_child)

    def _begin_in_child(self) -> Transport:
        transport = self._make(self._run)
        transport.start_without_waiting()
        self._transport = transport
        lifetime.watch_child()
        return transport

    def _encoded(
        self, event: Any, event_time_ms: int | None, key: bytes | None, max_block_ms: int
    ) -> tuple[bytes, int, bytes | None] | None:
        """Return the event's body, time and key; None if it was refused, and counted. Hot."""
        given = event_time_ms
        timestamp_ms: int | None = None
        try:
            if self._to_mapping is not None:
                event = self._to_mapping(event)
            if type(event) is not dict and not isinstance(event, Mapping):
                raise EventRefused("", event, "a mapping of field names to values")
            if given is None:
                given = event.get(EVENT_TIME)
            timestamp_ms = self._clock.now_ms() if given is None else event_time_ms_of(given)
            if timestamp_ms is None:
                raise EventRefused(EVENT_TIME, given, "milliseconds since the epoch (1970 or later) or an aware datetime")
            if self._only_between_ms is not None and not self._only_between_ms[0] <= timestamp_ms < self._only_between_ms[1]:
                first, end = self._only_between_ms
                raise EventRefused(EVENT_TIME, given, f"a time from {first} on and before {end} ms, as this logger announced")
            body = self._encoder.encode(event, timestamp_ms)
            if key is None and self._key_of is not None:
                key = self._key_of(event)
        except EventRefused as error:
            own_ms = None if given is None else timestamp_ms if timestamp_ms is not None else event_time_ms_of(given)
            self._refuse(event, error, own_ms, self._clock.now_ms(), max_block_ms)
            return None
        return body, timestamp_ms, key

    def _tell_end(self) -> None:
        """Log what became of this run's events, in one line."""
        ledger = self.ledger()
        failed: dict[str, Any] = {} if self.close_error is None else {"failed": str(self.close_error)}
        tell = log.warning if failed or ledger.dropped.keys() - {SAMPLED} else log.info
        tell(
            "logger_closed",
            topic=self.topic,
            **failed,
            instance=self.instance,
            **{name: getattr(ledger, name) for name in ("unpromised", "taken", "acknowledged", "journaled", "quarantined")},
            dropped=dict(sorted(ledger.dropped.items())),
        )

    def _refuse(self, event: Any, error: EventRefused, own_ms: int | None, now_ms: int, max_block_ms: int | None) -> None:
        window_ms = now_ms if own_ms is None else own_ms
        if self.on_bad_event == "raise":
            self._transport.lost(window_start_ms_of(window_ms, self._window_ms), "refused_by_schema")
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


def loggers_of_process() -> list[EventLogger]:
    """Return the loggers that are open in this process."""
    return [logger for logger in list(lifetime.open_loggers.values()) if isinstance(logger, EventLogger)]
