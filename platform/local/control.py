"""Operations on the running platform: read its state, bring it up or down, stop and start one process. Every wait is bounded."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from ..errors import HeadraceError
from ..runtime.layout import BROKERS_FILE, ENGINE_FILE, SECURED_FILE, Layout
from ..runtime.whole_file import replace_file
from . import preflight
from .interrupts import held
from .kafka import jars
from .security import files
from .supervisor.state import PlatformState, ProcessState, is_supervisor, read_held, read_platform, write_held

TURN_S = 0.05
UP_MS = 300_000
"""Airflow alone takes more than a minute on two busy cores."""
DOWN_MS = 90_000
"""Longer than the sum of `stop_ms` along any chain of processes that need each other."""


class PlatformError(HeadraceError):
    """The platform did not do what was asked. The message says what failed, with the end of the log if there is one."""


class NotRunning(PlatformError):
    """No supervisor runs this home."""


def state(layout: Layout) -> PlatformState | None:
    """Return the platform's state as its supervisor wrote it, or None if it is not running."""
    return read_platform(layout)


def running(layout: Layout) -> PlatformState:
    """Return the platform's state; raises NotRunning."""
    seen = read_platform(layout)
    if seen is None:
        raise NotRunning(f"no platform runs in {layout.home}: `headrace up` starts it (HEADRACE_HOME names another home)")
    return seen


def up(layout: Layout, *, timeout_ms: int = UP_MS, progress: Callable[[str], None] = lambda line: None) -> bool:
    """Return once everything is ready: True if this call started it, False if it was running.

    Raises PlatformError: with what the machine lacks, before anything is started; if the running platform has another engine; or
    with the reason and the end of the log if something is not ready in time. After an error or a signal, everything that this
    call started is stopped.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    lacking = preflight.platform_faults(layout.home, layout.port_shift, {**os.environ, **layout.environment()})
    if lacking:
        raise PlatformError(preflight.in_lines(lacking))
    if read_platform(layout) is not None:
        _await_ready(layout, None, deadline, progress)
        return False
    if layout.engine == "kafka":
        jars.fetched(progress)
    _check_secured(layout)
    # Stores, logs and secrets are the user's own; what other users may read, they give away themselves.
    layout.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    layout.logs.mkdir(parents=True, exist_ok=True)
    replace_file(layout.home / ENGINE_FILE, f"{layout.engine}\n".encode())
    if layout.brokers > 1:
        replace_file(layout.home / BROKERS_FILE, f"{layout.brokers}\n".encode())
    if layout.is_secured:
        replace_file(layout.home / SECURED_FILE, b"1\n")
        files.make_current(layout.security)
    supervisor: subprocess.Popen[bytes] | None = None
    try:
        with held(), (layout.logs / "supervisor.log").open("ab") as output:
            supervisor = subprocess.Popen(
                [sys.executable, "-m", "headrace.local.supervisor.supervisor"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **layout.environment()},
                start_new_session=True,
                umask=0o077,
            )
        _await_ready(layout, supervisor, deadline, progress)
    except BaseException:
        if supervisor is not None:
            _end(supervisor)
        raise
    return True


def _check_secured(layout: Layout) -> None:
    """Raise PlatformError where SECURE=1 does not fit the home."""
    if not layout.is_secured:
        return
    if (layout.home / ENGINE_FILE).exists() and not (layout.home / SECURED_FILE).exists():
        raise PlatformError(
            f"{layout.home} (HEADRACE_HOME) has the data of a platform without SECURE=1: name another with HEADRACE_HOME=..."
        )


def _await_ready(
    layout: Layout, supervisor: "subprocess.Popen[bytes] | None", deadline: float, progress: Callable[[str], None]
) -> None:
    """Return when all is ready. `supervisor` is the process started for it, or None if one was running."""
    announced: set[str] = set()
    seen = read_platform(layout)
    began = time.monotonic()
    while time.monotonic() < deadline:
        seen = read_platform(layout)
        for process in seen.processes if seen else ():
            if supervisor is not None and process.state == "ready" and process.name not in announced:
                announced.add(process.name)
                progress(f"ready: {process.name}" + (f" at {process.address}" if process.address else ""))
        if seen is not None and seen.is_ready:
            return
        if supervisor is not None and supervisor.poll() is not None:
            raise PlatformError(f"the supervisor ended (exit {supervisor.returncode}):\n{_tail(layout, 'supervisor')}")
        time.sleep(TURN_S)
    late = [process for process in (seen.processes if seen else ()) if process.state != "ready"]
    words = "\n".join(f"{process.name}: {process.state}, {process.reason}\n{_tail(layout, process.name)}" for process in late)
    waited = round(time.monotonic() - began)
    raise PlatformError(f"not ready after {waited} s:\n{words or _tail(layout, 'supervisor')}")


def _end(supervisor: "subprocess.Popen[bytes]") -> None:
    """Make the supervisor stop all its processes. If it does not end within a bound, kill it; its processes die with it."""
    supervisor.terminate()
    try:
        supervisor.wait(timeout=DOWN_MS / 1000)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait(timeout=DOWN_MS / 1000)


def down(layout: Layout, *, timeout_ms: int = DOWN_MS) -> bool:
    """Return once everything has stopped: True if something was running, False if nothing was."""
    seen = read_platform(layout)
    if seen is None:
        return False
    try:
        os.kill(seen.supervisor_pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    pid = seen.supervisor_pid
    _wait(lambda: not is_supervisor(pid), timeout_ms, lambda: f"the platform in {layout.home} has not stopped")
    return True


def stop(layout: Layout, name: str, *, timeout_ms: int = 30_000) -> None:
    """Stop one process (SIGTERM, then SIGKILL) and keep it stopped; return once it has ended."""
    _known(layout, name)
    write_held(layout, read_held(layout) | {name})
    _wait(lambda: _process(layout, name).state == "stopped", timeout_ms, lambda: _still(layout, name, "stopped"))


def start(layout: Layout, name: str, *, timeout_ms: int = 60_000) -> None:
    """Start one stopped process; return once it is ready."""
    _known(layout, name)
    write_held(layout, read_held(layout) - {name})
    _wait(lambda: _process(layout, name).state == "ready", timeout_ms, lambda: _still(layout, name, "ready"))


def restart(layout: Layout, name: str) -> None:
    """Stop one process and start it again; return once it is ready."""
    stop(layout, name)
    start(layout, name)


def _known(layout: Layout, name: str) -> None:
    names = [process.name for process in running(layout).processes]
    if name not in names:
        raise PlatformError(f"no process {name!r} in this platform: it has {', '.join(names)}")


def _process(layout: Layout, name: str) -> ProcessState:
    return running(layout).process(name)


def _still(layout: Layout, name: str, wanted: str) -> str:
    process = _process(layout, name)
    return f"{name} is not {wanted}: {process.state}, {process.reason}\n{_tail(layout, name)}"


def _wait(condition: Callable[[], bool], timeout_ms: int, say: Callable[[], str]) -> None:
    deadline = time.monotonic() + timeout_ms / 1000
    while not condition():
        if time.monotonic() > deadline:
            raise PlatformError(f"{say()} (waited {timeout_ms // 1000} s)")
        time.sleep(TURN_S)


def _tail(layout: Layout, name: str, lines: int = 12) -> str:
    path = layout.logs / f"{name}.log"
    if not path.exists():
        return f"(no log at {path})"
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 16_384))
        text = file.read().decode(errors="replace")
    return "\n".join(f"  | {line}" for line in text.splitlines()[-lines:])
