"""The logger's second thread: connects the logger, then reports to the audit about every second until the logger is sealed.

The steps of the start are: audit topic, the topic's time setting, producer id and announcement, schema id. Only then may the
first event go out, so that the audit knows a producer before it sees its records. A step that fails for now is tried again; a
refused topic or schema ends the start.
From the announcement on the logger reports each second what there is to tell, and beats every five seconds if there is nothing.
An outage is logged once, with the address and the reason, and once when it is over (`outage`).
"""

import threading
from collections.abc import Callable
from typing import Any

from ...audit.model.messages import Hold
from ...audit.publisher import ProducerReporter, ReportNotSent, see_to_audit_topic
from ...client.connection.cluster import Cluster
from ...client.errors import BrokerUnreachable, ClientError
from ...client.producer.event_throttle import EventThrottle
from ...client.producer.producer import Producer
from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...runtime.clock import Clock
from ...runtime.logs import get_library_logger
from ...schema_registry.client import RegistryClient, RegistryUnavailable
from . import refusals, topic_times
from .outage import Outages

log = get_library_logger(__name__)

FAULT_EVERY_MS = 60_000
STEP_TIMEOUT_MS = 5_000
"""How long one step waits before it counts as failed for now."""
STOP_MS = 200
"""What a thread that is not waiting for anybody needs for its end, on a busy machine."""
LOOKS_A_BEAT = 5
"""A logger that has nothing to tell beats each fifth time: every five seconds, as the agent. The audit's deadline is 20 s."""
MOST_SETTING_ASKS = 3
"""How often the topic's setting is asked for. A broker that does not tell it must not keep the logger from its start."""


class LoggerStartup:
    """`start` begins the thread; `stop` ends it. In between it takes the steps of the start, then reports every second."""

    def __init__(
        self,
        *,
        topic: str,
        subject: str,
        schema: str,
        record: str,
        registry: RegistryClient,
        cluster: Cluster,
        producer: Producer,
        reporter: ProducerReporter,
        clock: Clock,
        report_every_ms: int,
        moved_past_ms: Callable[[], int | None],
        holds: Callable[[], tuple[Hold, ...]],
        on_reported: Callable[[bool], None],
        on_schema_id: Callable[[int], None],
        before_report: Callable[[], None],
    ) -> None:
        self._topic = topic
        self._subject = subject
        self._schema = schema
        self._record = record
        self._registry = registry
        self._cluster = cluster
        self._producer = producer
        self._reporter = reporter
        self._clock = clock
        self._report_every_ms = report_every_ms
        self._moved_past_ms = moved_past_ms
        self._holds = holds
        self._on_reported = on_reported
        self._on_schema_id = on_schema_id
        self._before_report = before_report
        self._backoff = Backoff(longest_ms=1_000)
        self._outages = Outages()
        self._throttle = EventThrottle(FAULT_EVERY_MS)
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._finished = threading.Event()
        self._has_answer = threading.Event()
        """Set when the start is finished, or when something does not answer, so its end is unknown."""
        self._announced_ids: tuple[int, ...] | None = None
        self._told_ms: int | None = None
        """When the last report was begun, by the monotonic clock; None: it has not arrived."""
        self._setting_asks = 0
        self._is_late = False
        self._thread: threading.Thread | None = None
        self.refusal: HeadraceError | None = None
        """Why the logger can never come up."""
        self._troubles: dict[str, HeadraceError] = {}
        """What is away → what the latest try met."""

    @property
    def trouble(self) -> HeadraceError | None:
        """Return what the latest try met of what is away now, None where nothing is: a cluster that answers says nothing of the
        registry.
        """
        return next(iter(list(self._troubles.values())), None)

    @property
    def is_announced(self) -> bool:
        """Return whether the audit knows of this run, and waits for its end."""
        return self._announced_ids is not None

    @property
    def is_up(self) -> bool:
        return self._finished.is_set() and self.refusal is None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"headrace-audit-{self._topic}", daemon=True)
        self._thread.start()

    def await_answer(self, timeout_ms: int) -> bool:
        """As `await_up`, but wait no longer once cluster or registry was found unreachable."""
        self._has_answer.wait(timeout_ms / 1000)
        return self.await_up(0)

    def await_up(self, timeout_ms: int) -> bool:
        """Return whether the logger is up, after at most `timeout_ms`. Raises what can never pass (a topic or schema that is
        refused).
        """
        self._is_late = not self._finished.wait(timeout_ms / 1000)
        self.check()
        return self.is_up

    def check(self) -> None:
        """Raise the refusal, if there is one: from here, whichever thread met it."""
        if self.refusal is not None:
            raise self.refusal.with_traceback(None) from None

    def stop(self, timeout_ms: int) -> None:
        """End the thread, from another one, in about `timeout_ms`. In an unanswered request it is abandoned,
        later.
        """
        self._stopping.set()
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_ms / 1000)
            if self._thread.is_alive():
                self._cluster.close_lane("control")  # perhaps it waits for an answer there
                self._thread.join(STOP_MS / 1000)

    def wake(self) -> None:
        """Have the next report said now."""
        self._woken.set()

    def _run(self) -> None:
        startup_steps = [self._see_audit_topic, self._check_topic_times, self._announce, self._take_schema_id]
        attempt = 0
        while not self._stopping.is_set():
            if startup_steps and self._take(startup_steps[0]):
                del startup_steps[0]
                attempt = 0
                if not startup_steps:
                    self._producer.release()
                    self._finished.set()
                    self._has_answer.set()
                continue
            if self._stopping.is_set():
                return
            if not self._has_answer.is_set() and isinstance(self.trouble, BrokerUnreachable):
                self._see_schema()
            if self.refusal is not None or isinstance(self.trouble, BrokerUnreachable | RegistryUnavailable):
                self._has_answer.set()
            if self.refusal is not None:
                self._finished.set()
                return
            if self._announced_ids is not None:
                self._report()
            wait_ms = self._backoff.wait_ms(attempt) if startup_steps else self._report_every_ms
            self._woken.wait(min(wait_ms, self._report_every_ms) / 1000)
            self._woken.clear()
            attempt += 1

    def _take(self, step: Callable[[], None]) -> bool:
        what = self._registry_name if step == self._take_schema_id else self._cluster_name
        try:
            step()
        except HeadraceError as error:
            if error.retriable:
                self._fails(what, error)
            else:
                self._refuse(error)
            return False
        except Exception:
            self._fault("logger_start_failed", step=step.__name__.strip("_"))
            return False
        self._works(what)
        return True

    @property
    def _cluster_name(self) -> str:
        return f"the cluster at {self._cluster.bootstrap}"

    @property
    def _registry_name(self) -> str:
        return f"the schema registry at {self._registry.url}"

    def _fails(self, what: str, error: HeadraceError) -> None:
        self._troubles[what] = error
        if what == self._cluster_name:
            self._on_reported(False)
        if self._outages.failed(what, self._clock.monotonic_ms()) and not self._stopping.is_set():
            log.warning("logger_waits", topic=self._topic, waits_for=what, reason=str(error), meanwhile="events are buffered")

    def _works(self, what: str) -> None:
        self._troubles.pop(what, None)
        away_ms = self._outages.works(what, self._clock.monotonic_ms())
        if away_ms is not None:
            log.warning("logger_goes_on", topic=self._topic, waited_for=what, away_ms=away_ms)

    def _fault(self, event: str, **fields: Any) -> None:
        """Tell a fault of ours, called from where it was caught; the same one again after a while only."""
        if self._throttle.is_due(event, self._clock.monotonic_ms()):
            log.error(event, topic=self._topic, **fields, **self._throttle.left_out(event), exc_info=True)

    def _refuse(self, error: HeadraceError) -> None:
        url = self._registry.url
        self.refusal = refusals.in_words(error, topic=self._topic, subject=self._subject, record=self._record, registry_url=url)
        if self._is_late:
            # Nobody waits for the start any more: the next call raises it, and there may be none for long.
            log.error("logger_refused", topic=self._topic, reason=str(self.refusal))

    def _take_schema_id(self) -> None:
        self._on_schema_id(self._registry.register(self._subject, self._schema))

    def _see_schema(self) -> None:
        """A schema that the registry refuses is refused at once, though the cluster is away."""
        try:
            self._registry.register(self._subject, self._schema)
        except HeadraceError as error:
            if not error.retriable:
                self._refuse(error)

    def _see_audit_topic(self) -> None:
        see_to_audit_topic(self._cluster, timeout_ms=STEP_TIMEOUT_MS)

    def _check_topic_times(self) -> None:
        self._setting_asks += 1
        try:
            topic_times.check(self._cluster, self._topic)
        except ClientError as error:
            if error.retriable and self._setting_asks < MOST_SETTING_ASKS:
                raise
            log.info("topic_times_unknown", topic=self._topic, reason=str(error), meanwhile="taken to be the producers'")

    def _announce(self) -> None:
        self._producer.identify(STEP_TIMEOUT_MS)
        ids = self._producer.producer_ids
        self._tell(ids)

    def _tell(self, ids: tuple[int, ...]) -> None:
        """Report what is held, and whatever else there is to say."""
        past_ms, holds = self._moved_past_ms(), self._holds()
        now_ms = self._clock.monotonic_ms()
        is_fresh = self._told_ms is not None and now_ms - self._told_ms < LOOKS_A_BEAT * self._report_every_ms
        if ids == self._announced_ids and is_fresh and not self._reporter.has_news(moved_past_ms=past_ms, holds=holds):
            self._on_reported(True)
            return
        self._told_ms = None
        if ids == self._announced_ids:
            self._reporter.beat(moved_past_ms=past_ms, holds=holds, timeout_ms=STEP_TIMEOUT_MS)
        else:
            # The first time; or the producer had to begin again under another id, and records under it are unaudited until then.
            self._reporter.announce([self._topic], ids, moved_past_ms=past_ms, holds=holds, timeout_ms=STEP_TIMEOUT_MS)
            self._announced_ids = ids
        self._told_ms = now_ms
        self._on_reported(True)

    def _report(self) -> None:
        try:
            self._before_report()
            self._tell(self._producer.producer_ids)
            self._works(self._cluster_name)
        except ReportNotSent as error:
            self._fails(self._cluster_name, error)
        except Exception:
            # The reporter keeps the counts; whatever failed is tried again with the next beat.
            self._fault("report_failed")
