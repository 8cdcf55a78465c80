"""Gives out producer ids, from a block that ZooKeeper never gives out again. Lives on the loop thread.

The worker thread fetches the next block before the present one is used up. A request that finds no id left waits for it."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from ...runtime.logs import get_logger
from ..event_loop.worker import Worker

log = get_logger(__name__)

LOW = 100
"""With fewer ids left than this the next block is fetched."""
CAPACITY = 10_000
"""Requests that may wait for a block."""


class IdBlocks(Protocol):
    """The part of `coordination.producer_ids.ProducerIdBlocks` that is used here."""

    def next_block(self) -> range: ...


class ProducerIdAllocator:
    """Gives out each id once."""

    def __init__(self, blocks: IdBlocks, worker: Worker) -> None:
        self._blocks = blocks
        self._worker = worker
        self._ids: deque[int] = deque()
        self._waiting: deque[Callable[[int | None], None]] = deque()
        self._is_fetching = False

    def take(self, done: Callable[[int | None], None]) -> None:
        """Call `done` with a new id, now or later; with None when ZooKeeper cannot give one or too many requests wait."""
        if self._ids:
            done(self._ids.popleft())
        elif len(self._waiting) >= CAPACITY:
            done(None)
        else:
            self._waiting.append(done)
        if len(self._ids) < LOW:
            self.stock_up()

    def stock_up(self) -> None:
        """Fetch a block, unless one is being fetched."""
        if self._is_fetching:
            return
        self._is_fetching = self._worker.submit(self._blocks.next_block, self._arrived, self._failed)
        if not self._is_fetching:
            self._refuse_waiting()

    def _arrived(self, block: range) -> None:
        self._is_fetching = False
        self._ids.extend(block)
        while self._waiting and self._ids:
            self._waiting.popleft()(self._ids.popleft())
        if self._waiting:
            self.stock_up()

    def _failed(self, error: Exception) -> None:
        self._is_fetching = False
        log.warning("no_producer_ids", why=str(error), waiting=len(self._waiting))
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        while self._waiting:
            self._waiting.popleft()(None)
