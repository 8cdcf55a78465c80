"""The registry's composition root: topic store, registry, web server; started in order, stopped in reverse, on one signal."""

from dataclasses import dataclass, field
from pathlib import Path

from ...client.connection.cluster import parse_bootstrap
from ...runtime.http_access import HttpAccess
from ...runtime.layout import LOOPBACK, SCHEMAS_TOPIC
from ...runtime.lifecycle import Lifecycle, StopSignal
from ...runtime.logs import get_logger
from ...runtime.status import StatusFile
from ...runtime.web_server import HOW_TO_PROTECT, WebServer, bound
from ..errors import RegistryError
from .registry import SchemaRegistry
from .topic_store import TopicStore
from .web.application import application

log = get_logger(__name__)

CONCURRENT_REQUESTS = 512
"""Connections beyond this are answered 503 at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """The settings of a registry's process."""

    bootstrap: str
    """The live cluster, `host:port[,host:port…]`."""
    port: int
    """0 takes a free one; the status file has its number."""
    host: str = LOOPBACK
    """Another address only with `access` that asks who it is: anyone who reaches the port can change schemas."""
    access: HttpAccess = field(default_factory=HttpAccess)
    topic: str = SCHEMAS_TOPIC
    status_file: Path | None = None
    request_timeout_ms: int = 5_000
    """The timeout of one request to a broker; a write may take about three of these before it fails."""

    def check(self) -> None:
        """Raise one error that names every fault."""
        faults = []
        if not 0 <= self.port < 65_536:
            faults.append(f"port {self.port} is outside 0 to 65535")
        if self.request_timeout_ms < 100:
            faults.append(f"request_timeout_ms {self.request_timeout_ms} is below 100")
        try:
            parse_bootstrap(self.bootstrap)
        except Exception as error:
            faults.append(str(error))
        if faults:
            raise RegistryError("the registry cannot be started so: " + "; ".join(faults))


def run(settings: RegistrySettings, stop: StopSignal) -> int:
    """Serve until `stop` is set. Return the exit code: 0, or 1 if the web server ended without a stop."""
    settings.check()
    settings.access.check(settings.host, how=HOW_TO_PROTECT)
    status = StatusFile(settings.status_file)
    status.write("starting")
    life = Lifecycle()
    listener = bound(settings.host, settings.port)
    port = listener.getsockname()[1]
    life.started("listener", listener.close)
    store = TopicStore(
        settings.bootstrap,
        settings.topic,
        request_timeout_ms=settings.request_timeout_ms,
        write_timeout_ms=settings.request_timeout_ms * 8 // 5,
    )
    try:
        store.start()
        life.started("store", store.stop)
        app = application(SchemaRegistry(store), store)
        server = WebServer(app, listener, name="registry-http", most_requests=CONCURRENT_REQUESTS, access=settings.access)
        server.start()
        life.started("http", server.stop)
        log.info("registry_listens", host=settings.host, port=port, topic=settings.topic, bootstrap=settings.bootstrap)
        is_announced = False
        while not stop.wait(100):
            if not server.is_serving:
                log.error("registry_http_ended")
                return 1
            if store.is_caught_up and not is_announced:
                is_announced = True
                status.write("ready", port=port, topic=settings.topic, bootstrap=settings.bootstrap)
        return 0
    finally:
        status.write("stopping")
        life.stop()
