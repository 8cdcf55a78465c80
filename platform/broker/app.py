"""The process of one broker: takes the data folder, serves metrics and health, has the broker built and started, and stops it.

Ready means listening and registered. Metrics and health are served all the time, so that a long recovery and a long stop can be
watched. `assembly` has the parts and their order."""

import os
import threading
from collections.abc import Callable

from .. import __version__
from ..runtime.collector import freeze_live_objects
from ..runtime.lifecycle import Lifecycle, StopSignal
from ..runtime.logs import get_logger
from ..runtime.monitoring.http_server import HttpServer
from ..runtime.status import StatusFile
from .assembly import assemble
from .errors import BrokerError
from .machine import Machine, SystemMachine
from .monitoring.monitoring_pages import MonitoringPages, Parts
from .partitions.identity import FolderLock, identify
from .settings.broker_settings import BrokerSettings

log = get_logger(__name__)

WATCH_EVERY_MS = 500


class BrokerProcess:
    """One broker in this process. `start`, then `wait`, then `stop`."""

    def __init__(self, settings: BrokerSettings, machine: Machine | None = None) -> None:
        self.settings = settings
        self._machine: Machine = machine or SystemMachine()
        self._clock = self._machine.clock
        self._lifecycle = Lifecycle()
        self._status = StatusFile(settings.status_file)
        self._loop = self._machine.new_loop()
        self._loop_thread = threading.Thread(target=self._loop.run, name="broker-loop", daemon=True)
        self._fatal: BaseException | None = None
        self._pages = MonitoringPages(settings, self._loop, self._loop_thread.is_alive)
        self._begun_ms = self._clock.monotonic_ms()
        self._is_stopped = False
        self.port = settings.listeners[0].port
        self.http_port = settings.http_port

    def start(self) -> None:
        """Start everything and return when the broker is ready. Raises: BrokerError, LogError, CoordinationError, after what was
        started has been stopped again.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def wait(self, stop: StopSignal) -> None:
        """Return when a stop is requested. Raises: BrokerError when the broker cannot continue."""
        while not stop.wait(WATCH_EVERY_MS):
            if not self._loop_thread.is_alive():
                raise BrokerError("the broker's loop has ended unexpectedly: see the log above; start the broker again")
            if self._fatal is not None:
                raise self._fatal

    def stop(self) -> None:
        """Stop everything in reverse order. Pending requests are answered, logs flushed and closed."""
        if self._is_stopped:
            return
        self._is_stopped = True
        begun_ms = self._clock.monotonic_ms()
        self._pages.phase = "stopping"
        self._status.write("stopping")
        self._lifecycle.stop()
        log.info("broker_stopped", broker_id=self.settings.broker_id, took_ms=self._clock.monotonic_ms() - begun_ms)

    @property
    def is_stopped(self) -> bool:
        """Whether a stop has begun: by `stop`, or by a start that failed."""
        return self._is_stopped

    def _start(self) -> None:
        settings, machine, started, pages = self.settings, self._machine, self._lifecycle.started, self._pages
        self._status.write("starting")
        said = {one.name: f"{one.value} ({one.source})" for one in settings.effective if one.source != "default"}
        log.info("broker_starting", broker_id=settings.broker_id, version=__version__, pid=os.getpid(), settings=said)
        pages.doing = "taking the data folder"
        descriptors = machine.share_out_descriptors()
        lock = FolderLock(settings.data).take()
        started("folder lock", lock.release)
        identity = identify(settings.data, settings.broker_id, machine.surroundings.new_id)
        if settings.http_port is not None:
            http = HttpServer(settings.http_host, settings.http_port, pages.pages(), token_file=settings.http_token_file)
            http.start()
            started("metrics and health", http.stop)
            self.http_port = http.port
        made = assemble(settings, machine, self._loop, self, identity.folder_id)
        self.port = made.ports[settings.listeners[0].name]
        pages.phase = "ready"
        self._status.write(
            "ready",
            port=self.port,
            ports=dict(made.ports),
            http_port=self.http_port,
            broker_id=settings.broker_id,
            folder_id=identity.folder_id,
        )
        took_ms = self._clock.monotonic_ms() - self._begun_ms
        log.info(
            "broker_ready",
            descriptors=descriptors,
            broker_id=settings.broker_id,
            listeners={name: f"{host}:{port}" for name, (host, port) in made.advertised.items()},
            port=self.port,
            http_port=self.http_port,
            partitions=len(made.table),
            took_ms=took_ms,
        )

    # -- what `assemble` asks ----------------------------------------------------------------------

    @property
    def doing(self) -> str:
        """The present step of a start or a stop."""
        return self._lifecycle.stopping or self._pages.doing

    @doing.setter
    def doing(self, step: str) -> None:
        self._pages.doing = step

    def started(self, name: str, stop: Callable[[], None]) -> None:
        self._lifecycle.started(name, stop)

    def watch(self, parts: Parts) -> None:
        self._pages.watch(parts)

    def run_loop(self) -> None:
        freeze_live_objects()
        self._loop_thread.start()

    def has_loop_ended(self) -> bool:
        return not self._loop_thread.is_alive()

    def join_loop(self) -> None:
        self._loop_thread.join(10)

    def refused(self, error: BaseException) -> None:
        # Another folder's broker took the id while this one's session was lost: two brokers must not answer under one id.
        self._pages.fatal = str(error)
        self._fatal = error
