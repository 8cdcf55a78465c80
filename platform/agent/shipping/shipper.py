"""One agent at work on its state: builds the parts, and takes turns until it is asked to stop.

A turn: settle answers, scan, read and plan, write reports, commit; then what the commit allows: release, report, send. A fault,
the disk's or our own, ends the turns with nothing committed, and a new `Shipper` continues from the state as after a crash.
"""

import queue
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ...client.connection.cluster import Cluster
from ...client.connection.wake import Wake
from ...runtime.clock import Clock
from ...runtime.logs import get_logger
from ...schema_registry.client import RegistryClient
from ..audit_reports.audit_reports import AuditReports
from ..audit_reports.report_sender import ReportSender
from ..delivery.delivery import Delivery
from ..settings import AgentSettings
from ..source import SourceGroup
from ..state.store import Store
from .schema_ids import SchemaIds
from .sources import Sources

log = get_logger(__name__)

LONGEST_WAIT_MS = 200
"""The longest sleep of a turn: reports become due by the clock alone."""
GATHER_MS = 10
"""Between two answers to doorbells at least: what is logged meanwhile goes out together."""
BUSY_SHARE = 4
"""And at least so many times the processor time of the turn: with very many journals, looking at them takes a fifth of a core."""
REQUEST_TIMEOUT_MS = 10_000

Step = Callable[[str], None]


class Shipper:
    """One run of the agent's turns. `step` is called with the name of each place where a crash must do no harm (tests)."""

    def __init__(
        self,
        settings: AgentSettings,
        groups: Sequence[SourceGroup],
        registry: RegistryClient,
        clock: Clock,
        *,
        step: Step = lambda name: None,
    ) -> None:
        """Opens the state. Raises StateRefused."""
        self.settings = settings
        self._clock = clock
        self._step = step
        self._wake = Wake()
        self.store = Store(Path(settings.state))
        try:
            self.audit_reports = AuditReports(self.store, clock, enrolment=settings.instance)
            client_id = f"headrace-agent-{settings.name}"
            self._cluster = Cluster(settings.brokers, client_id=client_id, request_timeout_ms=REQUEST_TIMEOUT_MS)
            self.delivery = Delivery(
                self.store,
                self.audit_reports,
                self._cluster,
                clock,
                codec=settings.codec,
                batch_bytes=settings.batch_bytes,
                wake=self._wake.set,
                on_settled=lambda chunk: self.sources.chunk_settled(chunk),
            )
            self.schema_ids = SchemaIds(registry, self._wake.set)
            self.sources = Sources(
                self.store,
                self.audit_reports,
                self.delivery,
                self._cluster,
                self.schema_ids,
                groups,
                clock,
                chunk_bytes=settings.chunk_bytes,
                buffer_bytes=settings.buffer_bytes,
                most_sources=settings.most_sources,
            )
            self.reports = ReportSender(settings.brokers, client_id=client_id, clock=clock, on_sent=self._reports_sent)
        except BaseException:
            self.store.close()
            raise
        self._sent_reports: queue.SimpleQueue[Sequence[int]] = queue.SimpleQueue()
        self._scan_at_ms = 0
        self._answer_at_ms = 0
        self.turned_ms = 0
        """When the last turn ended (wall clock)."""

    def start(self) -> None:
        """Start the threads, and take in what the state holds."""
        self.schema_ids.start()
        self.delivery.start()
        self.reports.start()
        self.sources.start()

    def finish(self) -> None:
        """Settle what is under way and report it, at most for `stop_ms`; nothing new is read or sent."""
        deadline_ms = self._clock.monotonic_ms() + self.settings.stop_ms
        while self._clock.monotonic_ms() < deadline_ms and not self._is_quiet():
            self.turn(is_last=True)

    def turn(self, *, is_last: bool = False) -> None:
        """Take one turn. `is_last`: nothing new is read or sent."""
        began_cpu_ns = time.thread_time_ns()
        self._wake.clear()
        self.delivery.settle()
        while not self._sent_reports.empty():
            self.audit_reports.acknowledged(self._sent_reports.get())
        has_more = has_rung = False
        if not is_last:
            if self._clock.monotonic_ms() >= self._scan_at_ms:
                self.sources.scan()
                self._scan_at_ms = self._clock.monotonic_ms() + self.settings.scan_every_ms
            if self._clock.monotonic_ms() >= self._answer_at_ms:
                has_rung = self.sources.answer_doorbells()
            self.sources.rebuild()
            has_more = self.sources.read()
        self._report(is_last=is_last)
        self.sources.end_sources()
        self._step("before commit")
        self.store.commit()
        self._step("after commit")
        self.sources.after_commit()
        self._step("after release")
        self.reports.offer(self.audit_reports.unsent())
        self._step("after reports")
        if not is_last:
            self.delivery.send()
            self._step("after send")
        self.turned_ms = self._clock.now_ms()
        if has_rung:
            turn_ms = (time.thread_time_ns() - began_cpu_ns) // 1_000_000
            self._answer_at_ms = self._clock.monotonic_ms() + max(GATHER_MS, BUSY_SHARE * turn_ms)
        self._wait(0 if has_more else self._wait_ms())

    def close(self) -> None:
        """End the threads; drop what is not committed."""
        self.reports.stop()
        self.delivery.stop()
        self.schema_ids.stop()
        self.sources.close()
        self.store.close()
        self._wake.close()

    def _report(self, *, is_last: bool) -> None:
        if self.audit_reports.has_due(is_last=is_last):
            self.sources.note_losses()
            self.sources.look()
            self.audit_reports.compose(
                self.sources.progress.settled_up_to_ms, is_alive=self.sources.progress.is_alive, is_last=is_last
            )
            self.audit_reports.compose_enrolment(self.sources.progress.enrolment_border_ms())

    def _reports_sent(self, report_ids: Sequence[int]) -> None:
        self._sent_reports.put(report_ids)
        self._wake.set()

    def _is_quiet(self) -> bool:
        return self.delivery.is_idle and not self.audit_reports.reports_under_way and not self.audit_reports.has_due(is_last=True)

    def _wait(self, timeout_ms: int) -> None:
        """Wait for answers, and for doorbells once they may be answered again."""
        pause_ms = self._answer_at_ms - self._clock.monotonic_ms()
        if pause_ms > 0:
            self.delivery.wait([self._wake.fileno()], min(timeout_ms, pause_ms))
        else:
            self.delivery.wait([self._wake.fileno(), *self.sources.doorbells()], timeout_ms)

    def _wait_ms(self) -> int:
        now_ms = self._clock.monotonic_ms()
        moments = [self._scan_at_ms, self.delivery.next_retry_ms() or now_ms + LONGEST_WAIT_MS]
        return max(0, min(LONGEST_WAIT_MS, min(moments) - now_ms))
