"""Tells messages that were processed before from new ones, for readers of at-least-once streams.

    seen = Deduplicator(path=Path("orders.seen"))
    for message in seen.fresh(stream):
        book(message)

A record is known by its producer's id, epoch and sequence where its batch has them, at whatever offset and in whichever cluster
it is read; else by partition and offset. It is not an exactly-once: a crash between the effect and `done` lets it be done once
more.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from ..consumer.stream_message import Message
from .ranges import Changes, SeenRanges
from .store import SeenStore

WEEK_MS = 7 * 24 * 3_600_000


class Deduplicator:
    """Remembers what was processed: at most `most_ranges` runs of records, none for longer than `longest_ms`. Any thread."""

    def __init__(
        self,
        *,
        path: Path | None = None,
        most_ranges: int = 100_000,
        longest_ms: int = WEEK_MS,
        by_producer: bool = True,
        is_power_safe: bool = False,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`path`: a file that remembers over restarts (`is_power_safe`: over power cuts too, at a flush for each message);
        without it, memory only. Records beside each other share a run; a run takes some 200 bytes of memory. `by_producer` False:
        by partition and offset alone. Raises DeduplicationStoreError.
        """
        self._ranges = SeenRanges(most_ranges=most_ranges, longest_ms=longest_ms)
        self._by_producer, self._now_ms = by_producer, now_ms
        self._lock = threading.Lock()
        self.duplicates = 0
        """How many messages `fresh` left out."""
        self._store = SeenStore(path, is_power_safe=is_power_safe) if path is not None else None
        if self._store is not None:
            for one in self._store.read():
                self._ranges.restore(one)
            changes = Changes()
            self._ranges.expire(self._now_ms(), changes)
            self._store.apply(changes)

    def is_new(self, message: Message) -> bool:
        """Return whether the message was not `done` yet, as far as is remembered."""
        with self._lock:
            return self._identity(message) not in self._ranges

    def done(self, message: Message) -> None:
        """Remember the message: it was processed. Raises DeduplicationStoreError; then it may not be remembered."""
        with self._lock:
            changes = self._ranges.add(*self._identity(message), self._now_ms())
            if self._store is not None:
                self._store.apply(changes)

    def fresh(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the new messages; each is remembered when the next one is asked for, and not when its processing raised."""
        for message in messages:
            if not self.is_new(message):
                self.duplicates += 1
                continue
            yield message
            self.done(message)

    @property
    def forgotten(self) -> int:
        """How many runs were given up for want of room or for age: a duplicate of these counts as new."""
        return self._ranges.forgotten

    @property
    def range_count(self) -> int:
        """How many runs are remembered now."""
        return len(self._ranges)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _identity(self, message: Message) -> tuple[str, int]:
        # No topic name holds a slash, so the two kinds of names never meet.
        place = f"{message.topic}/{message.partition}"
        if self._by_producer and message.producer_id >= 0:
            return f"{place}/{message.producer_id}/{message.producer_epoch}", message.sequence
        return place, message.offset
