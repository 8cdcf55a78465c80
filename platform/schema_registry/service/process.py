"""The registry's composition root: topic store, registry, web server; started in order, stopped in reverse, on one signal."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ...client.callers import Callers
from ...client.connection.cluster import parse_bootstrap
from ...runtime.http_access import HttpAccess
from ...runtime.layout import LOOPBACK, SCHEMAS_TOPIC
from ...runtime.lifecycle import Lifecycle, StopSignal
from ...runtime.logs import get_logger
from ...runtime.status import StatusFile
from ...runtime.web_server import HOW_TO_PROTECT, WebServer, bound
from ..errors import RegistryError
from .forwarding import Forwarding
from .leadership import SESSION_MS, Leadership
from .registry import SchemaRegistry
from .topic_store import TopicStore
from .web.application import application
from .web.rights import RegistryLogins
from .write_gate import OpenGate, ReadOnlyGate, WriteGate

log = get_logger(__name__)

CONCURRENT_REQUESTS = 512
"""Requests beyond this, at once, are answered 503."""


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
    is_read_only: bool = False
    """Serve a topic that a mirror writes: writes are refused with 42205."""
    zookeeper: str | None = None
    """`host:port[,…][/chroot]`: one of several registries is elected there; None: this one writes without an election."""
    session_ms: int = SESSION_MS
    """How long a dead leader's seat stays taken, 1,000 to 30,000 ms."""
    advertised_url: str | None = None
    """Where the other registries reach this one; None: its host and port."""
    status_file: Path | None = None
    request_timeout_ms: int = 5_000
    """The timeout of one request to a broker; a write may take about three of these before it fails."""

    def check(self) -> None:
        """Raise one error that names every fault."""
        faults = []
        if not 0 <= self.port < 65_536:
            faults.append(f"port {self.port} is outside 0 to 65535")
        if self.is_read_only and self.zookeeper:
            faults.append("a read-only registry is never elected: leave --zookeeper or --read-only out")
        if not 1_000 <= self.session_ms <= 30_000:
            faults.append(f"session_ms {self.session_ms} is outside 1000 to 30000")
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
        is_read_only=settings.is_read_only,
    )
    try:
        store.start()
        life.started("store", store.stop)
        gate = _gate(settings, store, port)
        forwarding = None
        if isinstance(gate, Leadership):
            gate.start()
            life.started("leadership", gate.stop)
            # Longer than a dead leader's session, so that a client need not know of the change.
            forwarding = Forwarding(store.catch_up, within_ms=2 * settings.session_ms + settings.request_timeout_ms)
        logins = None
        if settings.access.logins:
            callers = Callers(settings.bootstrap)
            life.started("logins", callers.close)
            logins = RegistryLogins(callers)
        app = application(SchemaRegistry(store, gate=gate), store, forwarding)
        server = WebServer(
            app,
            listener,
            name="registry-http",
            most_requests=CONCURRENT_REQUESTS,
            access=settings.access,
            logins=logins,
            own_names=[urlsplit(settings.advertised_url or "").hostname or ""],
        )
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


def _gate(settings: RegistrySettings, store: TopicStore, port: int) -> WriteGate:
    if settings.is_read_only:
        return ReadOnlyGate(settings.topic, settings.bootstrap)
    if not settings.zookeeper:
        return OpenGate()
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = settings.advertised_url or f"{'https' if settings.access.certificate else 'http'}://{host}:{port}"
    return Leadership(
        settings.zookeeper, f"schema-registry-{settings.topic}", url.rstrip("/"), store, session_ms=settings.session_ms
    )
