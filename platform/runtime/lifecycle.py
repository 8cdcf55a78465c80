"""How a process starts and stops: parts start in order and stop in reverse order; a signal asks for the stop."""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from .logs import get_logger

log = get_logger(__name__)

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class StopSignal:
    """Set by SIGTERM or SIGINT. Loops check `is_set`, and wait with `wait`, which a stop ends early.

    No `threading.Event`: its `set` takes a lock that `wait` holds for moments. A signal handler that runs in such a moment, in
    the thread that waits, would wait for itself. Here the handler only releases a lock, which never waits.
    """

    def __init__(self, *, second_ends: bool = False, then: Callable[[], None] | None = None) -> None:
        """`second_ends`: the second signal ends the process at once, wherever it is. `then` is called at the first."""
        self._is_set = False
        self._gate = threading.Lock()
        """Held until it is set; then who waits passes through, one after the other."""
        self._gate.acquire()
        self._second_ends = second_ends
        self._then = then
        self.name: str | None = None
        """The name of the signal that was received."""

    def install(self) -> "StopSignal":
        """Take over SIGTERM and SIGINT of this process (main thread only)."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._second_ends:
            # The system's own way: it works even while the main thread waits for the disk.
            for one in (signal.SIGTERM, signal.SIGINT):
                signal.signal(one, signal.SIG_DFL)
        self.name = signal.Signals(number).name
        is_first = not self._is_set
        self.set()
        if is_first and self._then is not None:
            self._then()

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            self._open_gate()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_ms: int) -> bool:
        """Wait at most `timeout_ms`, and return whether a stop was requested."""
        if not self._is_set and self._gate.acquire(timeout=max(0, timeout_ms) / 1000):
            self._open_gate()
        return self._is_set

    def _open_gate(self) -> None:
        with suppress(RuntimeError):  # two threads set it at once: the other has opened it
            self._gate.release()


class Lifecycle:
    """The parts that a composition root has started; `stop` stops them in reverse order."""

    def __init__(self) -> None:
        self._stops: list[tuple[str, Callable[[], None]]] = []
        self.stopping: str | None = None
        """The part that is being stopped now."""

    def started(self, name: str, stop: Callable[[], None]) -> None:
        """Note that `name` runs and how it is stopped."""
        self._stops.append((name, stop))

    def stop(self) -> None:
        """Stop every part, the last started first. A part that fails is logged, and the others are stopped anyway."""
        while self._stops:
            name, stop = self._stops.pop()
            self.stopping = name
            try:
                stop()
            except Exception:
                log.error("stop_failed", part=name, exc_info=True)


def end_at_latest(within_ms: int, exit_code: int, doing: Callable[[], str]) -> None:
    """End this process with `exit_code` after `within_ms`, and log what it was doing."""

    def end() -> None:
        log.error("stop_ran_out_of_time", within_ms=within_ms, doing=doing())
        sys.stderr.flush()
        os._exit(exit_code)

    timer = threading.Timer(within_ms / 1000, end)
    timer.daemon = True
    timer.start()


def end_with_parent() -> None:
    """Call in a child before exec: if its parent is killed, the kernel asks the child to stop."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
