"""The transport of a logger in a forked child, until its first event: the child makes its own then, with a new identity.

A child that logs nothing opens nothing. The making does not wait for the network.
"""

import threading
from collections.abc import Callable

from ..wire.quarantine_record import QuarantineRecord
from .errors import LoggerClosed
from .transport import Ledger, Transport

_DROPPED = "dropped_buffer_full"


class LateTransport:
    """Makes the transport when it is needed. `make` also puts it in this one's place."""

    is_announced = False
    take_may_block = False

    def __init__(self, topic: str, make: Callable[[], Transport]) -> None:
        self._topic = topic
        self._make = make
        self._making = threading.RLock()
        self._made: Transport | None = None
        self._is_making = False
        self._is_closed = False
        self._missed: list[int] = []
        """Times of what a signal handler logged while its own thread was making the transport."""

    def has_room(self, size_bytes: int) -> bool:
        return True

    def must_wait(self, timestamp_ms: int) -> bool:
        made = self._transport(timestamp_ms)
        return made is not None and made.must_wait(timestamp_ms)

    def take(self, body: bytes, timestamp_ms: int, key: bytes | None, max_block_ms: int) -> str | None:
        made = self._transport(timestamp_ms)
        return _DROPPED if made is None else made.take(body, timestamp_ms, key, max_block_ms)

    def quarantine(self, record: QuarantineRecord, *, max_block_ms: int) -> None:
        made = self._transport(record.window_start_ms)
        if made is not None:
            made.quarantine(record, max_block_ms=max_block_ms)

    def lost(self, window_start_ms: int, name: str, count: int = 1) -> None:
        made = self._transport(window_start_ms)
        if made is not None:
            made.lost(window_start_ms, name, count)

    def flush(self, timeout_ms: int) -> None:
        if self._made is not None:
            self._made.flush(timeout_ms)

    def close(self, timeout_ms: int) -> None:
        self._is_closed = True
        if self._made is not None:
            self._made.close(timeout_ms)

    def is_inside(self) -> bool:
        return self._is_making or (self._made is not None and self._made.is_inside())

    def abandon_after_fork(self) -> None:
        if self._made is not None:
            self._made.abandon_after_fork()

    def ledger(self) -> Ledger:
        if self._made is not None:
            return self._made.ledger()
        return Ledger(taken=0, acknowledged=0, journaled=0, quarantined=0)

    def _transport(self, timestamp_ms: int) -> Transport | None:
        """Return the transport; None inside the making of it."""
        with self._making:
            if self._made is not None:
                return self._made
            if self._is_closed:
                raise LoggerClosed(f"this EventLogger of {self._topic!r} is closed: make a new one")
            if self._is_making:
                self._missed.append(timestamp_ms)
                return None
            self._is_making = True
            try:
                self._made = self._make()
            finally:
                self._is_making = False
        while self._missed:
            self._made.lost(self._missed.pop(), _DROPPED)
        return self._made
