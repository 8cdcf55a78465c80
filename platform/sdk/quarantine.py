"""Where an event goes that cannot be one: the topic `<topic>.quarantine`, with the reason and where it came from, counted once
it is there.
"""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..client.delivery import Delivery
from ..client.errors import ClientError
from ..client.producer import Producer
from ..client.seldom import Seldom
from ..runtime.clock import Clock
from ..runtime.logs import get_library_logger
from ..wire.quarantine_record import QuarantineRecord, quarantine_topic
from .open_windows import OpenWindows

log = get_library_logger(__name__)

Lost = Callable[[str, int, str, int], None]
"""Topic, window start (ms), the loss's name, how many."""

UNDELIVERED = "refused_by_schema"
"""How an event is counted that was refused and whose quarantine record found no way: it has no address."""


class Quarantine:
    """Sends quarantine records and counts each under `quarantined` once it is acknowledged, in its own window."""

    def __init__(self, topic: str, producer: Producer, windows: OpenWindows, lost: Lost, clock: Clock) -> None:
        self.topic = topic
        self.address = quarantine_topic(topic)
        self._producer = producer
        self._windows = windows
        self._lost = lost
        self._clock = clock
        self._telling = threading.Lock()
        self._seldom = Seldom()

    def put(self, record: QuarantineRecord, *, max_block_ms: int) -> None:
        """Take a record; its window is the one it names. Never raises for want of room or of a broker: that is counted."""
        self._windows.enter(record.window_start_ms)
        try:
            self._producer.send(
                self.address,
                record.to_json(),
                key=record.key(),
                # In its own window, so that the batch that is acknowledged says which window to count.
                timestamp_ms=record.window_start_ms,
                max_block_ms=max_block_ms,
            )
        except ClientError as error:
            self._tell_not_taken(error, record)
            self._count(record.window_start_ms, 1, UNDELIVERED)

    def delivered(self, delivery: Delivery) -> None:
        """Count a batch of the quarantine topic; the producer's `on_delivery`."""
        if delivery.topic != self.address:
            return
        name = "quarantined" if delivery.error is None else UNDELIVERED
        self._count(delivery.first_timestamp_ms, delivery.record_count, name)

    def _tell_not_taken(self, error: ClientError, record: QuarantineRecord) -> None:
        # The books count each; in the log one in a while is enough.
        kind = type(error)
        with self._telling:
            is_told = self._seldom.is_told(kind, self._clock.monotonic_ms())
            more = self._seldom.left_out(kind) if is_told else {}
        if is_told:
            log.warning("quarantine_not_taken", topic=self.topic, reason=str(error), of=record.reason, **more)

    def _count(self, timestamp_ms: int, count: int, name: str) -> None:
        self._lost(self.topic, self._windows.start_of(timestamp_ms), name, count)
        self._windows.leave(timestamp_ms, count)


def payload_of(event: Mapping[str, Any]) -> bytes:
    """Return a refused event as JSON, as well as JSON can say it."""
    try:
        return json.dumps(dict(event), default=repr).encode("utf-8", "backslashreplace")
    except Exception:
        return repr(event).encode("utf-8", "backslashreplace")
