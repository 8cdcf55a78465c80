"""The composition root of `headrace audit run`: file, books, readers, collector, judge, HTTP.

Started in order, stopped in reverse.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ...client.callers import Callers
from ...client.topic_logins import TopicLogins
from ...runtime import disk_room
from ...runtime.clock import SystemClock
from ...runtime.http_access import HttpAccess
from ...runtime.lifecycle import Lifecycle, StopSignal
from ...runtime.logs import get_logger
from ...runtime.status import StatusFile
from ...runtime.web_server import HOW_TO_PROTECT, WebServer, bound
from ..model.errors import AuditError
from ..model.tiers import LIVE, OFFLINE, QUARANTINE
from .checkpoints.checkpointer import Checkpointer
from .checkpoints.topic import ClusterCheckpoints
from .errors import StoreError
from .hearing.steady_clock import SteadyClock
from .ingest.collector import Collector
from .ingest.quarantine_reader import QuarantineReader
from .ingest.reader import LogReader
from .judge import Judge
from .repairs import Repairs, RepairsAsking
from .retiring import Retiring
from .settings import AuditSettings
from .store.ledger import Ledger
from .store.opening import database_at
from .web.endpoints import FOR_ALL, OF_TOPIC, Site, application
from .web.webhook import Webhook

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
    store: str
    """The path of a SQLite file, or `postgresql://user@host/database`."""
    status_file: Path | None
    settings: AuditSettings
    console: str | None = None
    """Where the console is, to which the addresses of pages lead."""
    access: HttpAccess = field(default_factory=HttpAccess)
    """Who may use the pages; needed where `host` is not the loopback."""


def run(process: AuditProcess, stop: StopSignal) -> None:
    """Run until `stop` is set. Raises StoreError and AddressTaken at the start; an unreachable cluster stops nothing."""
    process.access.check(process.host, how=HOW_TO_PROTECT)
    clock = SteadyClock(SystemClock())
    status = StatusFile(process.status_file, clock)
    status.write("starting", reason="opening the store")
    lifecycle = Lifecycle()
    listener = bound(process.host, process.port)
    lifecycle.started("listener", listener.close)
    try:
        database = database_at(process.store)
        database.open()
        lifecycle.started("database", database.close)
        ledger = Ledger(database, process.settings, clock)
        ledger.books.open()
        webhook = None if process.settings.webhook_url is None else Webhook(process.settings.webhook_url)
        tell = None if webhook is None else webhook.tell
        judge = Judge(ledger, clock, tell, tell)
        judge.open()
        checkpoint_topic = ClusterCheckpoints(process.live, clock)
        lifecycle.started("checkpoint topic", checkpoint_topic.close)
        checkpointer = Checkpointer(ledger, checkpoint_topic, clock)
        collector = Collector(process.live, ledger, clock, checkpointer)
        readers = {
            LIVE: LogReader(LIVE, process.live, ledger, clock),
            QUARANTINE: QuarantineReader(process.live, ledger, clock),
        }
        if process.offline is not None:
            readers[OFFLINE] = LogReader(
                OFFLINE, process.offline, ledger, clock, copied_from=process.live, mirror=process.settings.mirror
            )
        repairs = Repairs()
        site = _site(process, ledger, checkpointer, collector, readers, webhook, repairs)
        logins = None
        if process.access.logins:
            callers = Callers(process.live)
            lifecycle.started("logins", callers.close)
            logins = TopicLogins(callers, of_topic=OF_TOPIC, for_all=FOR_ALL)
        made = application(ledger, judge, clock, site)
        web = WebServer(made, listener, name="audit-web", access=process.access, logins=logins)
        parts: list[tuple[str, _Part]] = [("checkpoints", checkpointer), ("collector", collector), *readers.items()]
        served_by = {LIVE: process.live} if process.offline is None else {LIVE: process.live, OFFLINE: process.offline}
        parts.append(("repairs", RepairsAsking(served_by, repairs, clock)))
        if webhook is not None:
            parts.append(("webhook", webhook))
        if process.settings.retire:
            parts.append(("retiring", Retiring(process.live, ledger, clock, process.settings.retire)))
        for name, part in (*parts, ("judge", judge), ("web", web)):
            part.start()
            lifecycle.started(name, part.stop)
        log.info("audit_ready", port=process.port, live=process.live, offline=process.offline, store=database.name)
        while not stop.is_set():
            hearing = _hearing(ledger)
            reasons = site.not_ready()
            state, why = ("stalled", {"reason": "; ".join(reasons)}) if reasons else ("ready", {})
            status.write(state, port=process.port, faults=site.faults(), **why, **hearing)
            if not web.is_serving:
                raise AuditError(f"the HTTP server on {process.host}:{process.port} ended unexpectedly: see the log above")
            stop.wait(STATUS_EVERY_MS)
    finally:
        status.write("stopping")
        lifecycle.stop()


def _hearing(ledger: Ledger) -> Mapping[str, object]:
    try:
        return ledger.hearing()
    except StoreError:
        return {}  # `ledger.books.failure` says so, and the service continues when the store is back


def _site(
    process: AuditProcess,
    ledger: Ledger,
    checkpointer: Checkpointer,
    collector: Collector,
    readers: Mapping[str, LogReader],
    webhook: Webhook | None,
    repairs: Repairs,
) -> Site:
    """Return what the pages need of the parts."""

    def faults() -> list[str]:
        found = [f"The {reader.tier} log cannot be read now: {reader.failure}" for reader in readers.values() if reader.failure]
        if collector.failure:
            found.insert(0, f"The audit topic cannot be read now: {collector.failure}")
        if checkpointer.failure:
            found.append(f"The last checkpoint could not be written: {checkpointer.failure}")
        if webhook is not None and webhook.failure:
            found.append(f"Changes of verdicts are not accepted now: {webhook.failure}")
        if ledger.books.failure:
            found.insert(0, f"The store cannot be written now: {ledger.books.failure}")
        return found

    def not_ready() -> list[str]:
        reasons = [] if collector.is_running else ["the collector has not started"]
        return [*reasons, *(why for why in (ledger.books.failure, why_store_has_no_room(process.store)) if why)]

    def recount(tier: str, topic: str) -> None:
        reader = readers.get(tier)
        if reader is None:
            raise AuditError(f"there is no {tier} cluster to count again")
        ledger.logs.recount(tier, topic, reader.log_starts(topic))

    return Site(not_ready=not_ready, faults=faults, recount=recount, console=process.console, repairs=repairs)


def why_store_has_no_room(store: str) -> str | None:
    """Return why the next write to the store may fail; None where there is room, and for a store on a server."""
    return None if "://" in store else disk_room.why_no_room(disk_room.look(Path(store).absolute().parent))
