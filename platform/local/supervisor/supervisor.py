"""Keeps the platform's processes running: starts each when the processes it needs are ready, probes it, restarts it when it dies.

One thread decides. Probes run in a small pool, because one of them may take its whole time. `headrace up` starts this process
detached. SIGTERM ends it: it stops everything it started, in reverse order, and then whatever those processes left behind.
"""

import fcntl
import os
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ...errors import HeadraceError
from ...runtime.clock import Clock, SystemClock
from ...runtime.layout import Layout
from ...runtime.lifecycle import StopSignal
from ...runtime.logs import configure, get_logger
from ...runtime.whole_file import is_disk_full
from . import descendants, probes, process_table
from .child import Child
from .state import PlatformState, forget_platform, read_held, write_held, write_platform

log = get_logger(__name__)

TURN_MS = 50
LOOK_EVERY_MS = {"starting": 150, "unhealthy": 500, "ready": 2_000}
"""How often a process is probed, by its state."""
LEFT_TERM_MS, LEFT_KILL_MS = 3_000, 3_000
"""How long the leftovers of ended processes (such as a load that an Airflow task started) may take to end."""


class AlreadyRunning(HeadraceError):
    """Another supervisor holds this home's lock."""


class Supervisor:
    """One platform's supervisor; `run` returns when everything has been stopped."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._layout = layout
        self._clock = clock
        self._children = [Child(spec, layout, clock) for spec in process_table.load(layout)]
        self._by_name = {child.spec.name: child for child in self._children}
        self._looks: dict[str, Future[tuple[int, str | None, str | None]]] = {}
        self._looked_ms: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="probe")
        self._written = ""
        self._is_disk_full = False

    def run(self, stop: StopSignal) -> None:
        """Supervise until `stop`, then stop all in reverse order."""
        while not stop.wait(TURN_MS):
            self._turn()
        log.info("platform_stopping")
        while any(child.is_alive for child in self._children):
            self._stop_in_reverse()
            self._write_state()
            time.sleep(TURN_MS / 1000)
        self._pool.shutdown(wait=False, cancel_futures=True)
        left = descendants.end_descendants(term_ms=LEFT_TERM_MS, kill_ms=LEFT_KILL_MS)
        log.info("platform_stopped", left=left)

    def _turn(self) -> None:
        now_ms = self._clock.monotonic_ms()
        held = read_held(self._layout)
        for child in self._children:
            child.reap(now_ms)
            if child.spec.name in held:
                if child.state not in ("stopping", "stopped"):
                    child.stop(now_ms)
                continue
            if child.state == "stopped":
                child.release()
            if child.may_start(now_ms) and self._needs_are_ready(child):
                child.start(self._clock.monotonic_ms())
            self._look(child, now_ms)
        descendants.reap_adopted([child.pid for child in self._children if child.pid is not None])
        self._write_state()

    def _needs_are_ready(self, child: Child) -> bool:
        """Return True once each needed process has been ready. A later restart of one does not delay the others' own restarts."""
        return all(self._by_name[name].is_alive and self._by_name[name].state == "ready" for name in child.spec.after)

    def _look(self, child: Child, now_ms: int) -> None:
        name = child.spec.name
        under_way = self._looks.get(name)
        if under_way is not None:
            if under_way.done():
                del self._looks[name]
                pid, fault, notice = under_way.result()
                if pid == child.pid:
                    child.probed(fault, notice)
            return
        every_ms = LOOK_EVERY_MS.get(child.state)
        if every_ms is None or child.pid is None or now_ms - self._looked_ms.get(name, 0) < every_ms:
            return
        self._looked_ms[name] = now_ms
        self._looks[name] = self._pool.submit(_look_at, child, child.pid)

    def _stop_in_reverse(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for child in reversed(self._children):
            child.reap(now_ms)
            dependants = [other for other in self._children if child.spec.name in other.spec.after and other.is_alive]
            if child.is_alive and not dependants:
                child.stop(now_ms)

    def _write_state(self) -> None:
        facts = [child.facts() for child in self._children]
        words = repr(facts)
        if words == self._written:
            return
        try:
            write_platform(self._layout, PlatformState(supervisor_pid=os.getpid(), at_ms=self._clock.now_ms(), processes=facts))
        except OSError as error:
            # The platform must not end because its disk is full: then all would end with this process.
            if not is_disk_full(error):
                raise
            if not self._is_disk_full:
                log.error("state_not_written", reason=str(error))
            self._is_disk_full = True
        else:
            self._written, self._is_disk_full = words, False


def _look_at(child: Child, pid: int) -> tuple[int, str | None, str | None]:
    return pid, probes.look(child.spec.probe, pid), probes.notice(child.spec.probe, pid)


def _lock(path: Path) -> int:
    """Hold the home's lock for this process's life."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise AlreadyRunning(f"a supervisor runs this home already ({path}): `headrace down` stops it") from error
    return descriptor


def main() -> int:
    """Run the supervisor of the layout in the environment."""
    configure("supervisor")
    layout = Layout.from_environment()
    stop = StopSignal().install()
    try:
        _lock(layout.run / "supervisor.lock")
        write_held(layout, [])
        supervisor = Supervisor(layout, SystemClock())
    except HeadraceError as error:
        log.error("supervisor_refused", reason=str(error))
        return 1
    descendants.adopt_orphans()
    try:
        supervisor.run(stop)
    finally:
        forget_platform(layout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
