"""What goes between the reading thread and an event loop: a bounded queue of records one way, and what is done the other way."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from ..client.fetch.fetched import TopicPartition
from .record import EventRecord

MOST_RECORDS = 512
"""Of records that wait for the event loop."""


class Done(NamedTuple):
    """A record that the application is done with."""

    record: EventRecord
    failed: str | None
    """Why it goes to quarantine; None: it was handled."""


class Handoff:
    """One reader's. `get`, `done` and `drop` belong to the event loop, all else to the reading thread."""

    def __init__(self, *, most_records: int = MOST_RECORDS, most_bytes: int = 16 << 20) -> None:
        self._most_records, self._most_bytes = most_records, most_bytes
        self._changed = threading.Condition()
        self._queue: deque[EventRecord] = deque()
        self._queued_bytes = 0
        self._in_hand: dict[tuple[TopicPartition, int], float] = {}
        """Record → since when the application has it (monotonic seconds)."""
        self._done: list[Done] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._holds = 0
        self._has_ended = False

    # ---- the reading thread

    @property
    def has_room(self) -> bool:
        return len(self._queue) < self._most_records and self._queued_bytes < self._most_bytes

    def put(self, record: EventRecord) -> None:
        with self._changed:
            self._queue.append(record)
            self._queued_bytes += record.size_bytes
        self._wake()

    def purge(self, names: Collection[TopicPartition] | None = None) -> list[EventRecord]:
        """Take back and return what waits of these partitions (None: of all)."""
        with self._changed:
            taken = [one for one in self._queue if names is None or one.of in names]
            self._queue = deque(one for one in self._queue if names is not None and one.of not in names)
            self._queued_bytes = sum(one.size_bytes for one in self._queue)
            return taken

    def take_done(self) -> list[Done]:
        """Return what is done since the last call, in the order in which it was done."""
        if not self._done:
            return []
        with self._changed:
            done, self._done = self._done, []
            return done

    def has_in_hand(self, names: Collection[TopicPartition] | None = None) -> bool:
        """Return whether the application has records of these partitions (None: of any), or word of them was not taken yet."""
        with self._changed:
            held = {name for name, _ in self._in_hand} | {one.record.of for one in self._done}
            return bool(held if names is None else held.intersection(names))

    def longest_in_hand_ms(self) -> int:
        """Return for how long the application has had the record that it took first of those in its hands."""
        with self._changed:
            first = min(self._in_hand.values(), default=None)
            return 0 if first is None else int((time.monotonic() - first) * 1000)

    def wait(self, timeout_ms: int) -> None:
        """Wait until the application takes a record or is done with one, at most so long."""
        with self._changed:
            if not self._done:
                self._changed.wait(timeout_ms / 1000)

    def release(self) -> None:
        """Hand out again: what a `hold` was for is done."""
        with self._changed:
            self._holds -= 1
        self._wake()

    def end(self) -> None:
        """Hand out nothing more: `get` returns None."""
        with self._changed:
            self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None and self._waiting:
            try:
                loop.call_soon_threadsafe(self._wake_all)
            except RuntimeError:  # the loop is closed: nothing waits any more
                return

    # ---- the event loop

    def hold(self) -> None:
        """Hand out nothing until `release`: the reading thread has an order first. Any thread."""
        with self._changed:
            self._holds += 1

    async def get(self) -> EventRecord | None:
        """Return the next record, which is then in the application's hands; None at the end. A cancelled call takes none."""
        self._loop = loop = asyncio.get_running_loop()
        while True:
            woken: asyncio.Future[None] = loop.create_future()
            self._waiting.append(woken)  # before the look: what is put after it wakes
            try:
                with self._changed:
                    if self._has_ended:
                        return None
                    if self._queue and not self._holds:
                        record = self._queue.popleft()
                        self._queued_bytes -= record.size_bytes
                        self._in_hand[record.of, record.offset] = time.monotonic()
                        self._changed.notify_all()
                        return record
                await woken
            finally:
                self._waiting.remove(woken)

    def done(self, record: EventRecord, failed: str | None = None) -> None:
        """The application is done with a record. `failed`: why it goes to quarantine."""
        with self._changed:
            if self._in_hand.pop((record.of, record.offset), None) is not None:
                self._done.append(Done(record, failed))
                self._changed.notify_all()

    def drop(self, record: EventRecord) -> None:
        """The application has let a record go that is not done."""
        with self._changed:
            self._in_hand.pop((record.of, record.offset), None)
            self._changed.notify_all()

    def _wake_all(self) -> None:
        for one in self._waiting:
            if not one.done():
                one.set_result(None)
