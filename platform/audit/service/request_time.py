"""How long the request at hand may still take, and whether its client is still there: known to every lock that it waits for.

Threads that serve no request (readers, the judge) have no such time and wait as long as it takes.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from .errors import StoreError

LOOK_EVERY_S = 0.05
"""How soon a thread that waits notices that its client is gone."""


class TooLate(StoreError):
    """The request's time is over, or its client went away, before the books were free."""


class Lock(Protocol):
    """A lock of `threading`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


class RequestTime:
    """One request's time. The event loop abandons it; its thread asks."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._end = time.monotonic() + within_s
        self._is_abandoned = threading.Event()

    def abandon(self) -> None:
        """Nobody waits for the answer any more."""
        self._is_abandoned.set()

    def left_s(self) -> float:
        """Return how long may still be waited. Raises TooLate."""
        left = self._end - time.monotonic()
        if self._is_abandoned.is_set():
            raise TooLate("the client went away")
        if left <= 0:
            raise TooLate(f"the audit is busy: its data were not available within {self._within_s:g} s: ask again")
        return left


CURRENT: ContextVar[RequestTime | None] = ContextVar("request_time", default=None)


def acquire(lock: Lock) -> None:
    """Acquire the lock within the request's time. Raises TooLate."""
    request = CURRENT.get()
    if request is None:
        lock.acquire()
        return
    while not lock.acquire(timeout=min(LOOK_EVERY_S, request.left_s())):
        pass


@contextmanager
def held(lock: Lock) -> Iterator[None]:
    """Hold the lock. Raises TooLate."""
    acquire(lock)
    try:
        yield
    finally:
        lock.release()
