"""For an application's own tests: what its loggers would have sent, without a network.

    with capture_events() as captured:
        shop.take_order(...)
    assert [event["number"] for event in captured.events("orders")] == [7]

Inside the block every `EventLogger` of the process validates and encodes as usual, and what it takes is kept here: loggers that
are made inside it connect to nothing, and those that were open before send nothing. Loggers that were made inside it are closed
when it ends. One block at a time.
"""

import contextlib
import io
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import fastavro

from ..audit.model.messages import QUARANTINED
from ..wire.quarantine_record import QuarantineRecord
from . import capturing, event_logger
from .errors import LoggerClosed, SdkError
from .transport import Ledger, LoggerRun

MOST_EVENTS = 100_000
"""What one capture keeps by default. What is over is dropped, and counted as with a full buffer."""
DROPPED = "dropped_buffer_full"


class CapturedEvent(NamedTuple):
    """An event as it would have been sent."""

    body: bytes
    """Avro, by `schema`."""
    schema: Any
    """As fastavro parses it."""
    timestamp_ms: int
    key: bytes | None


class CaptureRunning(SdkError):
    """There is a capture in this process already: loggers could not serve both."""

    def __init__(self) -> None:
        super().__init__("capture_events() runs in this process already: end it first, or use the one that runs")


class CapturedEvents:
    """What the loggers of the process took, by topic; any thread may log meanwhile."""

    def __init__(self, most_events: int) -> None:
        self._most_events = most_events
        self._lock = threading.Lock()
        self._count = 0
        self._events: dict[str, list[CapturedEvent]] = defaultdict(list)
        self._quarantined: dict[str, list[QuarantineRecord]] = defaultdict(list)
        self._dropped: dict[str, Counter[str]] = defaultdict(Counter)

    def events(self, topic: str) -> list[dict[str, Any]]:
        """Return the topic's events in the order in which they were taken, as a reader gets them: `event_time` is a datetime."""
        return [_read(one) for one in self.records(topic)]

    def records(self, topic: str) -> list[CapturedEvent]:
        """Return the topic's events with key, timestamp and bytes."""
        with self._lock:
            return list(self._events.get(topic, ()))

    def quarantined(self, topic: str) -> list[QuarantineRecord]:
        """Return what was refused by the topic's schema, with the reason."""
        with self._lock:
            return list(self._quarantined.get(topic, ()))

    def dropped(self, topic: str) -> dict[str, int]:
        """Return the topic's losses: name → events."""
        with self._lock:
            return dict(self._dropped.get(topic, ()))

    @property
    def topics(self) -> list[str]:
        """Return the topics that events were logged to, in order."""
        with self._lock:
            return sorted({*self._events, *self._quarantined, *self._dropped})

    def clear(self) -> None:
        """Forget what was captured so far."""
        with self._lock:
            self._count = 0
            for kept in (self._events, self._quarantined, self._dropped):
                kept.clear()

    def _keep(self, topic: str, event: CapturedEvent | QuarantineRecord) -> bool:
        with self._lock:
            if self._count >= self._most_events:
                self._dropped[topic][DROPPED] += 1
                return False
            self._count += 1
            if isinstance(event, QuarantineRecord):
                self._quarantined[topic].append(event)
            else:
                self._events[topic].append(event)
            return True

    def _lose(self, topic: str, name: str, count: int) -> None:
        with self._lock:
            self._dropped[topic][name] += count


@contextlib.contextmanager
def capture_events(*, most_events: int = MOST_EVENTS) -> Iterator[CapturedEvents]:
    """Keep the events of all loggers of this process until the block ends. Raises `CaptureRunning` inside of another one."""
    if capturing.transport_for is not None:
        raise CaptureRunning
    captured = CapturedEvents(most_events)
    made: list[_CaptureTransport] = []

    def transport_for(run: LoggerRun) -> _CaptureTransport:
        transport = _CaptureTransport(run, captured)
        made.append(transport)
        return transport

    before = [
        (logger, logger._transport, _CaptureTransport(logger._run, captured)) for logger in event_logger.loggers_of_process()
    ]
    capturing.transport_for = transport_for
    for logger, _, instead in before:
        logger._transport = instead
    try:
        yield captured
    finally:
        capturing.transport_for = None
        for one in made:
            one.close(0)
        for logger, transport, instead in before:
            logger._transport = transport
            if instead.is_closed:
                logger.close()


class _CaptureTransport:
    """The transport of one logger while it is captured."""

    is_announced = True
    take_may_block = False

    def __init__(self, run: LoggerRun, captured: CapturedEvents) -> None:
        self._topic = run.topic
        self._schema = fastavro.parse_schema(json.loads(run.schema))
        self._captured = captured
        self._counts: Counter[str] = Counter()
        self.is_closed = False

    def has_room(self, size_bytes: int) -> bool:
        return True

    def must_wait(self, timestamp_ms: int) -> bool:
        return False

    def take(self, body: bytes, timestamp_ms: int, key: bytes | None, max_block_ms: int) -> str | None:
        self._check_open()
        is_kept = self._captured._keep(self._topic, CapturedEvent(body, self._schema, timestamp_ms, key))
        self._counts["" if is_kept else DROPPED] += 1
        return None if is_kept else DROPPED

    def quarantine(self, record: QuarantineRecord, *, max_block_ms: int) -> None:
        self._check_open()
        is_kept = self._captured._keep(self._topic, record)
        self._counts[QUARANTINED if is_kept else DROPPED] += 1

    def lost(self, window_start_ms: int, name: str, count: int = 1) -> None:
        self._check_open()
        self._captured._lose(self._topic, name, count)
        self._counts[name] += count

    def flush(self, timeout_ms: int) -> None:
        """All is here already."""

    def close(self, timeout_ms: int) -> None:
        self.is_closed = True

    def is_inside(self) -> bool:
        return False

    def abandon_after_fork(self) -> None:
        self.is_closed = True

    def ledger(self) -> Ledger:
        counts = dict(self._counts)
        taken, quarantined = counts.pop("", 0), counts.pop(QUARANTINED, 0)
        return Ledger(taken=taken, acknowledged=taken, journaled=0, quarantined=quarantined, dropped=counts)

    def _check_open(self) -> None:
        if self.is_closed:
            raise LoggerClosed(
                f"this EventLogger of {self._topic!r} was closed, or its capture_events() has ended: make a new one"
            )


def _read(event: CapturedEvent) -> dict[str, Any]:
    read: Any = fastavro.schemaless_reader(io.BytesIO(event.body), event.schema, None)
    return dict(read)
