"""The thread that brings reports to the audit topic, word for word, again and again until they are acknowledged."""

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from ...audit.publisher import see_to_audit_topic
from ...client.connection.cluster import Cluster
from ...client.producer.producer import Producer
from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...runtime.clock import Clock
from ...runtime.layout import AUDIT_TOPIC
from ...runtime.logs import get_logger
from ..state.rows import ReportRow

log = get_logger(__name__)

KEY = b"producer"
TIMEOUT_MS = 5_000


class ReportSender:
    """`offer` takes reports in order; `on_sent` is called with the ids of those that the topic holds, on this thread.

    What waits is bounded by the books: each run has one report under way.
    """

    def __init__(self, bootstrap: str, *, client_id: str, clock: Clock, on_sent: Callable[[Sequence[int]], None]) -> None:
        self._cluster = Cluster(bootstrap, client_id=client_id, request_timeout_ms=TIMEOUT_MS)
        self._producer = Producer(self._cluster, linger_ms=2, delivery_timeout_ms=2 * TIMEOUT_MS, max_block_ms=1_000)
        self._clock = clock
        self._on_sent = on_sent
        self._offered: queue.SimpleQueue[Sequence[ReportRow]] = queue.SimpleQueue()
        self._backoff = Backoff()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-agent-reports", daemon=True)
        self.last_error: HeadraceError | None = None
        """Why the reports under way did not arrive; None once they did."""

    def start(self) -> None:
        self._thread.start()

    def offer(self, reports: Sequence[ReportRow]) -> None:
        if reports:
            self._offered.put(reports)

    def stop(self) -> None:
        """End the thread; what is not acknowledged is sent again by the next agent."""
        self._is_stopping.set()
        self._offered.put(())
        self._thread.join()
        with suppress(HeadraceError):
            self._producer.close(0)
        self._cluster.close()

    def _run(self) -> None:
        attempt = 0
        while not self._is_stopping.is_set():
            reports = [*self._offered.get()]
            while not self._offered.empty():
                reports += self._offered.get()
            while reports and not self._is_stopping.is_set():
                try:
                    self._send(reports)
                    break
                except HeadraceError as error:
                    if self.last_error is None:
                        log.warning("reports_wait", reports=len(reports), reason=str(error))
                    self.last_error = error
                    self._is_stopping.wait(self._backoff.wait_ms(attempt) / 1000)
                    attempt += 1
            else:
                continue
            attempt = 0
            self.last_error = None
            self._on_sent([report.id for report in reports])

    def _send(self, reports: Sequence[ReportRow]) -> None:
        see_to_audit_topic(self._cluster, timeout_ms=TIMEOUT_MS)
        for report in reports:
            self._producer.send(AUDIT_TOPIC, report.body, key=KEY, timestamp_ms=self._clock.now_ms())
        self._producer.flush(TIMEOUT_MS)
