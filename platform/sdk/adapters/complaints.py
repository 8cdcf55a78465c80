"""Complaints from places that must never fail the application: logged, one in a while, with the number left out."""

import threading

from ...client.producer.event_throttle import EventThrottle
from ...runtime.clock import Clock, SystemClock
from ...runtime.logs import get_library_logger

log = get_library_logger(__name__)

EVERY_MS = 60_000


class Complaints:
    """Says that an event was not logged, at most once a minute. From any thread."""

    def __init__(self, what: str, topic: str, clock: Clock | None = None) -> None:
        """`what` names the complaint in the log: `request_not_logged`."""
        self._what = what
        self._topic = topic
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._throttle = EventThrottle(EVERY_MS)

    def tell(self, error: Exception) -> None:
        with self._lock:
            is_due = self._throttle.is_due(self._what, self._clock.monotonic_ms())
            more = self._throttle.left_out(self._what) if is_due else {}
        if is_due:
            log.error(self._what, topic=self._topic, reason=str(error) or repr(error), kind=type(error).__name__, **more)
