"""One supervised process: its own process group and log file, ended by its own pid, restarted when it dies."""

import os
import signal
import subprocess
from pathlib import Path

from ...runtime.backoff import Backoff
from ...runtime.clock import Clock
from ...runtime.layout import LOOPBACK, Layout
from ...runtime.lifecycle import end_with_parent
from ...runtime.logs import get_logger
from .process_table import ProcessSpec
from .state import ProcessState, State

log = get_logger(__name__)

RESTART = Backoff(first_ms=200, longest_ms=5_000)
CALM_MS = 30_000
"""If a process lived this long before it died, its backoff begins again."""


class Child:
    """The supervisor's handle on one entry of the process table. Only the supervisor's thread calls it.

    `now_ms` is always the monotonic clock.
    """

    def __init__(self, spec: ProcessSpec, layout: Layout, clock: Clock) -> None:
        self.spec = spec
        self.state: State = "waiting"
        self.reason: str | None = "waits for others"
        self._layout = layout
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._born_ms: int | None = None
        self._started_at_ms: int | None = None
        self._deaths = 0
        self._restarts = 0
        self._next_start_ms = 0
        self._kill_at_ms: int | None = None
        self._notice: str | None = None

    @property
    def log_path(self) -> Path:
        return self._layout.logs / f"{self.spec.name}.log"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_alive(self) -> bool:
        return self._process is not None

    def may_start(self, now_ms: int) -> bool:
        return self._process is None and now_ms >= self._next_start_ms

    def start(self, now_ms: int) -> None:
        """Start the process; append its output to its log file."""
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self.spec.probe.status_file is not None:
            self.spec.probe.status_file.unlink(missing_ok=True)
        environment = {**os.environ, **self._layout.environment(), **self.spec.environment}
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                self.spec.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self._born_ms, self._started_at_ms, self._kill_at_ms = now_ms, self._clock.now_ms(), None
        self._notice = None
        self.state, self.reason = "starting", "has just been started"
        log.info("process_started", name=self.spec.name, pid=self._process.pid)

    def probed(self, fault: str | None, notice: str | None = None) -> None:
        """Store the probe's result: None if the process is well, else the fault as text; and what it says of its orders."""
        if self._process is None or self.state == "stopping":
            return
        self._notice = notice
        if fault is None:
            if self.state != "ready":
                log.info("process_ready", name=self.spec.name, pid=self._process.pid)
            self.state, self.reason = "ready", None
        else:
            self.state = "starting" if self.state == "starting" else "unhealthy"
            self.reason = fault

    def reap(self, now_ms: int) -> None:
        """Notice that the process ended; plan the next start. Kill a process that takes too long to stop."""
        if self._process is None:
            return
        code = self._process.poll()
        if code is None:
            if self._kill_at_ms is not None and now_ms >= self._kill_at_ms:
                self._signal(signal.SIGKILL)
            return
        self._signal(signal.SIGKILL)  # a JVM under a script outlives its group's leader: leave nothing behind
        wanted = self.state == "stopping"
        lived_ms = now_ms - (self._born_ms or now_ms)
        self._process, self._started_at_ms, self._kill_at_ms = None, None, None
        if wanted:
            self.state, self.reason = "stopped", "a command stopped it"
            log.info("process_stopped", name=self.spec.name, exit_code=code)
            return
        self._deaths = 0 if lived_ms > CALM_MS else self._deaths
        self._next_start_ms = now_ms + RESTART.wait_ms(self._deaths)
        self._deaths += 1
        self._restarts += 1
        self.state, self.reason = "restarting", f"ended unexpectedly (exit {code}); its log: {self.log_path}"
        log.warning("process_died", name=self.spec.name, exit_code=code, restarts=self._restarts)

    def stop(self, now_ms: int) -> None:
        """Ask the process to end; `reap` kills it if it still runs `stop_ms` later."""
        if self._process is None:
            self.state, self.reason = "stopped", "a command stopped it"
        elif self.state != "stopping":
            self.state, self.reason = "stopping", "was asked to stop"
            self._kill_at_ms = now_ms + self.spec.stop_ms
            self._signal(signal.SIGTERM)

    def release(self) -> None:
        """Allow a held process to be started again."""
        if self._process is None:
            self.state, self.reason, self._next_start_ms = "waiting", "waits for others", 0

    def _signal(self, number: int) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass

    def facts(self) -> ProcessState:
        port = self.spec.port
        return ProcessState(
            name=self.spec.name,
            state=self.state,
            address=f"{LOOPBACK}:{port}" if port is not None else None,
            pid=self.pid,
            started_at_ms=self._started_at_ms,
            restarts=self._restarts,
            reason=self.reason,
            notice=self._notice if self.is_alive else None,
        )
