"""Makes one Ctrl-C enough and a second one harmless: the first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt in the main
thread; later ones do not disturb the clean-up.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, handles the three signals; the previous handlers are restored at the end. Main thread only."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._before: dict[int, object] = {}
        self._came: signal.Signals | None = None

    @property
    def came(self) -> bool:
        return self._came is not None

    def __enter__(self) -> "Interrupts":
        for number in _NUMBERS:
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        first, self._came = self._came is None, signal.Signals(number)
        if not first:
            self._say("interrupted again: still stopping, nothing is to be left running")
            return
        self._say("interrupted: stopping what was started here")
        raise KeyboardInterrupt


@contextmanager
def held() -> Iterator[None]:
    """Block the signals inside, for the few steps between starting a process and storing its id.

    Does nothing in other threads, because only the main thread handles signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    try:
        for number in _NUMBERS:
            signal.signal(number, lambda number, frame: waiting.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])
