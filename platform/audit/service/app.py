"""The composition root of `headrace audit run`: file, books, readers, collector, judge, HTTP.

Started in order, stopped in reverse.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...runtime.clock import SystemClock
from ...runtime.lifecycle import Lifecycle, StopSignal
from ...runtime.logs import get_logger
from ...runtime.status import StatusFile
from ...runtime.web_server import WebServer, bound
from ..model.errors import AuditError
from ..model.tiers import LIVE, OFFLINE
from .ingest.collector import Collector
from .ingest.reader import LogReader
from .judge import Judge
from .settings import AuditSettings
from .store.database import Database
from .store.ledger import Ledger
from .web.endpoints import application

log = get_logger(__name__)

STATUS_EVERY_MS = 1_000


class _Part(Protocol):
    """What is started in order and stopped in reverse."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditProcess:
    """What one audit service is started with."""

    host: str
    port: int
    live: str
    """Bootstrap of the live cluster: the audit topic, and the live tier."""
    offline: str | None
    """Bootstrap of the offline cluster; None where there is none."""
    store: Path
    status_file: Path | None
    settings: AuditSettings


def run(process: AuditProcess, stop: StopSignal) -> None:
    """Run until `stop` is set. Raises StoreError and AddressTaken at the start; an unreachable cluster stops nothing."""
    clock = SystemClock()
    status = StatusFile(process.status_file, clock)
    status.write("starting", reason="opening the books")
    lifecycle = Lifecycle()
    listener = bound(process.host, process.port)
    lifecycle.started("listener", listener.close)
    try:
        database = Database(process.store)
        database.open()
        lifecycle.started("database", database.close)
        ledger = Ledger(database, process.settings, clock)
        ledger.open()
        judge = Judge(ledger, clock)
        judge.open()
        collector = Collector(process.live, ledger, clock)
        readers = [LogReader(LIVE, process.live, ledger, clock)]
        if process.offline is not None:
            readers.append(LogReader(OFFLINE, process.offline, ledger, clock))

        def faults() -> list[str]:
            found = [f"The {reader.tier} log cannot be read now: {reader.failure}" for reader in readers if reader.failure]
            if collector.failure:
                found.insert(0, f"The audit topic cannot be read now: {collector.failure}")
            return found

        def not_ready() -> str | None:
            return None if collector.is_running else "the collector has not started"

        app = application(ledger, judge, clock, not_ready=not_ready, faults=faults)
        web = WebServer(app, listener, name="audit-web")
        parts: list[tuple[str, _Part]] = [("collector", collector), *((reader.tier, reader) for reader in readers)]
        for name, part in (*parts, ("judge", judge), ("web", web)):
            part.start()
            lifecycle.started(name, part.stop)
        log.info("audit_ready", port=process.port, live=process.live, offline=process.offline, store=str(process.store))
        while not stop.is_set():
            status.write("ready", port=process.port, faults=faults(), **ledger.hearing())
            if not web.is_serving:
                raise AuditError(f"the HTTP server on {process.host}:{process.port} ended by itself: see the log above")
            stop.wait(STATUS_EVERY_MS)
    finally:
        status.write("stopping")
        lifecycle.stop()
