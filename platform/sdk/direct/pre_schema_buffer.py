"""Events from before their schema's id is known: encoded, bounded in bytes, let go in order once the id is there."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...client.errors import BufferFull, ProducerClosed, RecordTooLarge
from ...client.producer.pending import RECORD_OVERHEAD_BYTES, record_size_bytes
from ...wire import schema_id as envelope


class _Early(NamedTuple):
    body: bytes
    timestamp_ms: int
    key: bytes | None
    size_bytes: int


class PreSchemaBuffer:
    """The events of one logger that wait for the schema's id. From any thread."""

    def __init__(self, topic: str, buffer_bytes: int, window_ms: int) -> None:
        self._topic = topic
        self._window_ms = window_ms
        self._buffer_bytes = buffer_bytes
        mutex = threading.RLock()
        self._lock = threading.Condition(mutex)
        self.is_owned: Callable[[], bool] = mutex._is_owned  # type: ignore[attr-defined]
        """Whether the calling thread is inside, interrupted."""
        self._windows = Counter[int]()
        """Number of a window → its events that wait for the id, or for room."""
        self._events: deque[_Early] = deque()
        self._size_bytes = 0
        self.schema_id: int | None = None
        """None: not known yet, events are to be kept here."""
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._events)

    def has_room(self, size_bytes: int) -> bool:
        """Return whether an event of so many bytes would be kept, or let through, at once."""
        size_bytes += RECORD_OVERHEAD_BYTES + envelope.SIZE
        return self.schema_id is not None or self.is_closed or self._size_bytes + size_bytes <= self._buffer_bytes

    @contextmanager
    def entering(self, timestamp_ms: int) -> Iterator[None]:
        """Count an event that is about to be kept as under way."""
        with self._lock:
            self._windows[timestamp_ms // self._window_ms] += 1
        try:
            yield
        finally:
            with self._lock:
                self._leave(timestamp_ms)

    def windows_under_way(self) -> dict[int, int]:
        """Return the numbers of the windows with events here, each with about how many. Takes no lock."""
        return dict(list(self._windows.items()))

    def first_ms(self) -> int | None:
        """Return the start of the first window that has events here; None when none has."""
        with self._lock:
            first = min(self._windows, default=None)
            return None if first is None else first * self._window_ms

    def keep(self, body: bytes, timestamp_ms: int, key: bytes | None, max_block_ms: int) -> bool:
        """Keep the event until the id is known; return False when it is known by now.

        Waits for room at most `max_block_ms`. Raises BufferFull, RecordTooLarge, ProducerClosed.
        """
        size_bytes = record_size_bytes(key, body, ()) + envelope.SIZE
        if size_bytes > self._buffer_bytes:
            raise RecordTooLarge(self._topic, size_bytes, self._buffer_bytes, "buffer_bytes")

        def can_proceed() -> bool:
            return self.schema_id is not None or self.is_closed or self._size_bytes + size_bytes <= self._buffer_bytes

        with self._lock:
            self._windows[timestamp_ms // self._window_ms] += 1
            is_kept = False
            try:
                if not self._lock.wait_for(can_proceed, max_block_ms / 1000):
                    raise BufferFull(self._topic, self._buffer_bytes, max_block_ms)
                if self.schema_id is not None:
                    return False
                if self.is_closed:
                    raise ProducerClosed("closed while the schema's id was waited for")
                self._events.append(_Early(body, timestamp_ms, key, size_bytes))
                self._size_bytes += size_bytes
                is_kept = True
            finally:
                if not is_kept:
                    self._leave(timestamp_ms)
            return True

    def let_go(
        self, schema_id: int, send: Callable[[bytes, int, bytes | None], None], then: Callable[[], None] = lambda: None
    ) -> None:
        """Send (body, timestamp, key) of each event, oldest first, before any later one can be sent."""
        with self._lock:
            if self.schema_id is not None:
                return
            while self._events:
                body, timestamp_ms, key, size_bytes = self._events[0]
                send(body, timestamp_ms, key)
                self._events.popleft()
                self._leave(timestamp_ms)
                self._size_bytes -= size_bytes
            then()  # before anybody can see the id
            self.schema_id = schema_id
            self._lock.notify_all()

    def close(self) -> bool:
        """Take no more events; return whether this was the first call."""
        with self._lock:
            was_open, self.is_closed = not self.is_closed, True
            self._lock.notify_all()
            return was_open

    def give_up(self) -> list[int]:
        """Drop what still waits; return the timestamps."""
        with self._lock:
            given_up = [event.timestamp_ms for event in self._events]
            self._events.clear()
            self._windows.clear()
            self._size_bytes = 0
            return given_up

    def _leave(self, timestamp_ms: int) -> None:
        window = timestamp_ms // self._window_ms
        self._windows[window] -= 1
        if not self._windows[window]:
            del self._windows[window]
