"""Returns memory to the system after a burst: unused buffers, and freed memory that the C library keeps.

A burst of three thousand connections takes up to 80 MB, which the process would otherwise keep. A timer checks every few seconds
whether a burst has ended."""

import ctypes
from collections.abc import Callable
from typing import Protocol

from ..event_loop.loop import Loop

LOOK_EVERY_MS = 5_000
WORTH_BYTES = 4 << 20
"""A burst has ended when a whole period needed so much less than the peak before it. For less it does not pay: a trim takes
milliseconds of another thread, and new buffers cost page faults."""


class Borrower(Protocol):
    """The owner of the buffers (the server)."""

    def take_peak(self) -> int:
        """Return the most bytes that were in use at once since the last call."""
        ...

    def give_back(self) -> None:
        """Free the buffers that are kept for the next request."""
        ...


class MemoryReturn:
    """Lives on the loop thread; `dispose` runs the trim elsewhere."""

    def __init__(self, loop: Loop, borrower: Borrower, dispose: Callable[[Callable[[], None]], None]) -> None:
        """`dispose` runs a job off the loop."""
        self._loop = loop
        self._borrower = borrower
        self._dispose = dispose
        self._most_bytes = 0

    def start(self) -> None:
        """Begin the checks. Call it on the loop thread, or before the loop runs."""
        self._loop.call_at(self._loop.now_ms + LOOK_EVERY_MS, self._look)

    def _look(self) -> None:
        self._loop.call_at(self._loop.now_ms + LOOK_EVERY_MS, self._look)
        peak_bytes = self._borrower.take_peak()
        if peak_bytes + WORTH_BYTES > self._most_bytes:
            self._most_bytes = max(self._most_bytes, peak_bytes)
            return
        self._most_bytes = peak_bytes
        self._borrower.give_back()
        self._dispose(trim)


def trim() -> None:
    """Have the C library return its freed memory to the system, where it can. Any thread may call this; others run meanwhile."""
    trim_heap = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim_heap is not None:
        trim_heap(0)
