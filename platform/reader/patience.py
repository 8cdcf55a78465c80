"""Asks again while a broker or ZooKeeper is away for a short time."""

import time
from collections.abc import Callable
from typing import TypeVar

from ..errors import HeadraceError
from ..runtime.backoff import Backoff

T = TypeVar("T")

PATIENCE_MS = 20_000
"""How long a takeover waits for a broker or ZooKeeper that is away. Then the process ends, and its supervisor restarts it."""


def patiently(ask: Callable[[], T]) -> T:
    """Return the answer; retry for `PATIENCE_MS` while the error is retriable. Raises the last error."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    attempt = 0
    while True:
        try:
            return ask()
        except HeadraceError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
            time.sleep(Backoff().wait_ms(attempt) / 1000)
            attempt += 1
