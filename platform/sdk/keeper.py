"""The logger's second thread: brings the logger up, then reports to the audit about every second until the logger is sealed.

Coming up is a ladder: audit topic, producer id and announcement, schema id; only then may the first event go out, so that the
audit knows of a producer before it sees a record of its. A rung that fails for now is tried again; a schema that is refused ends
it. From the announcement on the logger beats, whatever else is still missing.
"""

import threading
from collections.abc import Callable

from ..audit.publisher import ProducerReporter, ReportNotSent, see_to_audit_topic
from ..client.cluster import Cluster
from ..client.producer import Producer
from ..errors import HeadraceError
from ..runtime.backoff import Backoff
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from ..schema_registry.client import RegistryClient

log = get_logger(__name__)

STEP_TIMEOUT_MS = 5_000
"""How long one rung waits before it counts as failed for now."""


class Keeper:
    """`start` begins the thread; `stop` ends it; between the two it climbs, then beats."""

    def __init__(
        self,
        *,
        topic: str,
        subject: str,
        schema: str,
        registry: RegistryClient,
        cluster: Cluster,
        producer: Producer,
        reporter: ProducerReporter,
        clock: Clock,
        report_every_ms: int,
        moved_past_ms: Callable[[], int | None],
        on_schema_id: Callable[[int], None],
    ) -> None:
        self._topic = topic
        self._subject = subject
        self._schema = schema
        self._registry = registry
        self._cluster = cluster
        self._producer = producer
        self._reporter = reporter
        self._clock = clock
        self._report_every_ms = report_every_ms
        self._moved_past_ms = moved_past_ms
        self._on_schema_id = on_schema_id
        self._backoff = Backoff(longest_ms=1_000)
        self._stopping = threading.Event()
        self._climbed = threading.Event()
        self._announced_ids: tuple[int, ...] | None = None
        self._thread: threading.Thread | None = None
        self.refusal: HeadraceError | None = None
        """Why the logger can never come up."""

    @property
    def is_up(self) -> bool:
        return self._climbed.is_set() and self.refusal is None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"headrace-audit-{self._topic}", daemon=True)
        self._thread.start()

    def await_up(self, timeout_ms: int) -> bool:
        """Return whether the logger is up, after at most `timeout_ms`. Raises what can never pass (a schema that is refused)."""
        self._climbed.wait(timeout_ms / 1000)
        if self.refusal is not None:
            raise self.refusal
        return self.is_up

    def stop(self) -> None:
        """End the thread, from another one."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        rungs = [self._see_audit_topic, self._announce, self._take_schema_id]
        attempt = 0
        while not self._stopping.is_set():
            if rungs and self._climb(rungs[0], attempt):
                del rungs[0]
                attempt = 0
                if not rungs:
                    self._producer.release()
                    self._climbed.set()
                continue
            if self.refusal is not None:
                self._climbed.set()
                return
            if self._announced_ids is not None:
                self._report()
            wait_ms = self._backoff.wait_ms(attempt) if rungs else self._report_every_ms
            self._stopping.wait(min(wait_ms, self._report_every_ms) / 1000)
            attempt += 1

    def _climb(self, rung: Callable[[], None], attempt: int) -> bool:
        try:
            rung()
            return True
        except HeadraceError as error:
            log.warning("logger_waits", topic=self._topic, step=rung.__name__.strip("_"), attempt=attempt, reason=str(error))
            if not error.retriable:
                self.refusal = error
        except Exception:
            log.error("logger_start_failed", topic=self._topic, step=rung.__name__.strip("_"), exc_info=True)
        return False

    def _take_schema_id(self) -> None:
        self._on_schema_id(self._registry.register(self._subject, self._schema))

    def _see_audit_topic(self) -> None:
        see_to_audit_topic(self._cluster, timeout_ms=STEP_TIMEOUT_MS)

    def _announce(self) -> None:
        self._producer.identify(STEP_TIMEOUT_MS)
        ids = self._producer.producer_ids
        self._reporter.announce([self._topic], ids, moved_past_ms=self._moved_past_ms(), timeout_ms=STEP_TIMEOUT_MS)
        self._announced_ids = ids

    def _report(self) -> None:
        ids = self._producer.producer_ids
        past_ms = self._moved_past_ms()
        try:
            if ids == self._announced_ids:
                self._reporter.beat(moved_past_ms=past_ms, timeout_ms=STEP_TIMEOUT_MS)
            else:
                # The producer had to begin again under another id: records under it are unaudited until this is said.
                self._reporter.announce([self._topic], ids, moved_past_ms=past_ms, timeout_ms=STEP_TIMEOUT_MS)
                self._announced_ids = ids
        except ReportNotSent as error:
            log.warning("report_not_sent", topic=self._topic, reason=str(error))
        except Exception:
            # The reporter keeps the counts; whatever failed is tried again with the next beat.
            log.error("report_failed", topic=self._topic, exc_info=True)
