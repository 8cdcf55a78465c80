"""Producer ids on the loop thread: given out from a block that ZooKeeper will never give to anybody again.

The next block is asked for, on the worker's thread, before the present one is used up; whoever comes to an empty desk waits
for it."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from ...runtime.logs import get_logger
from ..event_loop.worker import Worker

log = get_logger(__name__)

LOW = 100
"""So many ids left in hand: time to ask for more."""
CAPACITY = 10_000
"""Requests that may wait for a block."""


class IdBlocks(Protocol):
    """What is used of `coordination.producer_ids.ProducerIdBlocks`."""

    def next_block(self) -> range: ...


class ProducerIdAllocator:
    """Gives out each id once."""

    def __init__(self, blocks: IdBlocks, worker: Worker) -> None:
        self._blocks = blocks
        self._worker = worker
        self._ids: deque[int] = deque()
        self._waiting: deque[Callable[[int | None], None]] = deque()
        self._is_asking = False

    def take(self, done: Callable[[int | None], None]) -> None:
        """Call `done` with a new id, at once or later; with None when ZooKeeper cannot give one now."""
        if self._ids:
            done(self._ids.popleft())
        elif len(self._waiting) >= CAPACITY:
            done(None)
        else:
            self._waiting.append(done)
        if len(self._ids) < LOW:
            self.stock_up()

    def stock_up(self) -> None:
        """Ask for a block, unless one is on its way."""
        if self._is_asking:
            return
        self._is_asking = self._worker.submit(self._blocks.next_block, self._arrived, self._failed)
        if not self._is_asking:
            self._turn_away()

    def _arrived(self, block: range) -> None:
        self._is_asking = False
        self._ids.extend(block)
        while self._waiting and self._ids:
            self._waiting.popleft()(self._ids.popleft())
        if self._waiting:
            self.stock_up()

    def _failed(self, error: Exception) -> None:
        self._is_asking = False
        log.warning("no_producer_ids", why=str(error), waiting=len(self._waiting))
        self._turn_away()

    def _turn_away(self) -> None:
        while self._waiting:
            self._waiting.popleft()(None)
