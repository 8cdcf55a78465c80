"""A process's life: things start in order, stop in reverse, and one signal ends the wait between."""

import signal
import threading
from collections.abc import Callable
from types import FrameType

from .logs import get_logger

log = get_logger(__name__)


class StopSignal:
    """Set by SIGTERM or SIGINT. Loops ask `is_set`; waits go through `wait`, so that a stop cuts them short."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def install(self) -> "StopSignal":
        """Take over SIGTERM and SIGINT of this process (main thread only)."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._event.set()

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

    def started(self, name: str, stop: Callable[[], None]) -> None:
        """Note that `name` runs and how it is stopped."""
        self._stops.append((name, stop))

    def stop(self) -> None:
        """Stop everything, last started first. One that fails is logged and does not keep the others from stopping."""
        while self._stops:
            name, stop = self._stops.pop()
            try:
                stop()
            except Exception:
                log.error("stop_failed", part=name, exc_info=True)
