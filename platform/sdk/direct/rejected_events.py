"""Events that do not fit their schema: sent to the topic `<topic>.quarantine` with reason and origin, and counted."""

import threading
from collections.abc import Callable

from ...client.errors import ClientError
from ...client.producer.delivery import Delivery
from ...client.producer.event_throttle import EventThrottle
from ...client.producer.producer import Producer
from ...client.quarantine import send_quarantined
from ...runtime.clock import Clock
from ...runtime.logs import get_library_logger
from ...wire.quarantine_record import QuarantineRecord, quarantine_topic

log = get_library_logger(__name__)

Lost = Callable[[str, int, str, int], None]
"""Topic, window start (ms), the loss's name, how many."""

UNDELIVERED = "refused_by_schema"
"""The loss that counts a refused event whose quarantine record was not delivered."""


class RejectedEvents:
    """Sends quarantine records. Counts each in its own window: as `quarantined` when it is acknowledged, else as a loss."""

    def __init__(self, topic: str, producer: Producer, lost: Lost, clock: Clock) -> None:
        self.topic = topic
        self.address = quarantine_topic(topic)
        self._producer = producer
        self._lost = lost
        self._clock = clock
        self._telling = threading.RLock()
        self.is_owned: Callable[[], bool] = self._telling._is_owned  # type: ignore[attr-defined]
        """Whether the calling thread is inside, interrupted."""
        self._throttle = EventThrottle()

    def put(self, record: QuarantineRecord, *, max_block_ms: int) -> None:
        """Send a record; it is counted in the window it names. A full buffer or a missing broker is counted, never raised."""
        try:
            # Dated by its own window: the acknowledged batch then says which window to count.
            send_quarantined(self._producer, record, timestamp_ms=record.window_start_ms, max_block_ms=max_block_ms)
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
        # Each one is counted; the log gets one in a while.
        kind = type(error)
        with self._telling:
            is_due = self._throttle.is_due(kind, self._clock.monotonic_ms())
            more = self._throttle.left_out(kind) if is_due else {}
        if is_due:
            log.warning("quarantine_not_taken", topic=self.topic, reason=str(error), of=record.reason, **more)

    def _count(self, window_start_ms: int, count: int, name: str) -> None:
        self._lost(self.topic, window_start_ms, name, count)
