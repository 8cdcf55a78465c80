"""The composition root of `headrace console run`: what is asked, and HTTP. Keeps no state but what it remembers for seconds."""

from dataclasses import dataclass, field
from pathlib import Path

from ..client.callers import Callers
from ..client.connection import control_plane
from ..client.groups import group_admin
from ..client.topic_logins import TopicLogins
from ..runtime.clock import SystemClock
from ..runtime.http_access import HttpAccess, is_loopback
from ..runtime.layout import Layout
from ..runtime.lifecycle import Lifecycle, StopSignal
from ..runtime.logs import get_logger
from ..runtime.status import StatusFile
from ..runtime.web_server import HOW_TO_PROTECT, WebServer, bound
from .answers import Answers
from .errors import NotHere
from .rendering import prepare
from .warehouse_asking import Asking
from .web import FOR_ALL, OF_RECORDS, OF_TOPIC, application

log = get_logger(__name__)

STATUS_EVERY_MS = 1_000
MOST_REQUESTS = 128
DRAIN_S = 1
"""Live streams end with the process; nobody waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleProcess:
    """What one console is started with."""

    host: str
    port: int
    layout: Layout
    status_file: Path | None
    access: HttpAccess = field(default_factory=HttpAccess)
    """Who may use the pages; needed where `host` is not the loopback."""


def run(process: ConsoleProcess, stop: StopSignal) -> None:
    """Run until `stop` is set. Raises AddressTaken and Unprotected at the start; what it asks need not run."""
    process.access.check(process.host, how=HOW_TO_PROTECT)
    clock = SystemClock()
    status = StatusFile(process.status_file, clock)
    status.write("starting", reason="opening its port")
    lifecycle = Lifecycle()
    listener = bound(process.host, process.port)
    lifecycle.started("listener", listener.close)
    try:
        # The first pages would wait for this.
        prepare()
        control_plane.import_messages()
        group_admin.import_messages()
        answers = Answers(process.layout, clock, is_read_only=not is_loopback(process.host))
        lifecycle.started("answers", answers.close)
        asking = Asking(process.layout, clock)
        lifecycle.started("warehouse", asking.close)
        logins = None
        if process.access.logins:
            callers = Callers(process.layout.live_bootstrap)
            lifecycle.started("logins", callers.close)
            logins = TopicLogins(callers, of_topic=OF_TOPIC, of_records=OF_RECORDS, for_all=FOR_ALL)
        web = WebServer(
            application(answers, asking),
            listener,
            name="console-web",
            most_requests=MOST_REQUESTS,
            drain_s=DRAIN_S,
            access=process.access,
            logins=logins,
            is_for_browsers=True,
        )
        web.start()
        lifecycle.started("web", web.stop)
        log.info("console_ready", port=process.port, is_read_only=answers.is_read_only)
        while not stop.is_set():
            status.write("ready", port=process.port)
            if not web.is_serving:
                raise NotHere("The console's HTTP server ended unasked", "see the log above", "headrace restart console")
            stop.wait(STATUS_EVERY_MS)
    finally:
        status.write("stopping")
        lifecycle.stop()
