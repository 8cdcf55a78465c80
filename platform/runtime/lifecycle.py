"""A process's life: things start in order, stop in reverse, and one signal ends the wait between."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from .logs import get_logger

log = get_logger(__name__)


class StopSignal:
    """Set by SIGTERM or SIGINT. Loops ask `is_set`; waits go through `wait`, so that a stop cuts them short."""

    def __init__(self, *, second_ends: bool = False, then: Callable[[], None] | None = None) -> None:
        """`second_ends`: the second signal ends the process at once, wherever it is. `then` is called at the first."""
        self._event = threading.Event()
        self._second_ends = second_ends
        self._then = then
        self.name: str | None = None
        """Of the signal that came."""

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
        is_first = not self._event.is_set()
        self._event.set()
        if is_first and self._then is not None:
            self._then()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_ms: int) -> bool:
        """Wait at most `timeout_ms`; return whether the stop was asked for."""
        return self._event.wait(timeout_ms / 1000)


class Lifecycle:
    """What a composition root has started, to be stopped in reverse order."""

    def __init__(self) -> None:
        self._stops: list[tuple[str, Callable[[], None]]] = []
        self.stopping: str | None = None
        """What is being stopped now."""

    def started(self, name: str, stop: Callable[[], None]) -> None:
        """Note that `name` runs and how it is stopped."""
        self._stops.append((name, stop))

    def stop(self) -> None:
        """Stop everything, last started first. One that fails is logged and does not keep the others from stopping."""
        while self._stops:
            name, stop = self._stops.pop()
            self.stopping = name
            try:
                stop()
            except Exception:
                log.error("stop_failed", part=name, exc_info=True)


def end_at_latest(within_ms: int, exit_code: int, doing: Callable[[], str]) -> None:
    """End this process with `exit_code` when it is still there after `within_ms`, saying what it was doing."""

    def end() -> None:
        log.error("stop_ran_out_of_time", within_ms=within_ms, doing=doing())
        sys.stderr.flush()
        os._exit(exit_code)

    timer = threading.Timer(within_ms / 1000, end)
    timer.daemon = True
    timer.start()
