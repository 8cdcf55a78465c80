"""Joins single tasks to jobs for a worker thread, so that one round of calls creates a hundred topics.

Tasks of all kinds wait in one queue and run in its order. Adjacent tasks of one kind become one job. One job runs at a time;
tasks that arrive meanwhile make up the next. Lives on the loop thread. Knows nothing of topics."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ..errors import Overloaded
from .worker import Worker

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_WAITING = 1_000
MOST_COST = 128
"""The bound of one job, as commits and reads wait behind it on the same thread. A topic of one partition costs 1 and takes
1 ms."""


class Kind(NamedTuple, Generic[Item, Result]):
    """How tasks of one kind are run. Two kinds are the same when they are the same object."""

    job: Callable[[Sequence[Item]], Result]
    """Runs some tasks on the worker thread."""
    done: Callable[[Sequence[Item], Result], None]
    """Receives the job's result, on the loop thread."""
    failed: Callable[[Sequence[Item], Exception], None]
    """Receives the error for which none of the tasks has a result, on the loop thread."""


class _Waiting(NamedTuple):
    kind: Kind[Any, Any]
    item: Any
    cost: int


class BatchedJobs:
    """The queue of tasks."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._queue: deque[_Waiting] = deque()
        self._is_running = False

    def put(self, kind: Kind[Item, Any], item: Item, *, cost: int = 1, is_required: bool = False) -> None:
        """Queue one task. When too many wait, `failed` is called with `Overloaded` before this returns. A required task, which no
        client asked for and which must run anyway, is always queued.
        """
        if not is_required and len(self._queue) >= MOST_WAITING:
            kind.failed((item,), Overloaded())
            return
        self._queue.append(_Waiting(kind, item, cost))
        self._next()

    def _next(self) -> None:
        while self._queue and not self._is_running:
            kind, items = self._queue[0].kind, self._take_items()
            self._is_running = self._submit(kind, items)
            if not self._is_running:
                kind.failed(items, Overloaded())

    def _take_items(self) -> list[Any]:
        """Remove the next job's items from the queue, at least one, and return them."""
        first = self._queue.popleft()
        items, cost = [first.item], first.cost
        while self._queue and self._queue[0].kind is first.kind and cost + self._queue[0].cost <= MOST_COST:
            following = self._queue.popleft()
            items.append(following.item)
            cost += following.cost
        return items

    def _submit(self, kind: Kind[Any, Any], items: Sequence[Any]) -> bool:
        def done(result: Any) -> None:
            self._ended(lambda: kind.done(items, result))

        def failed(error: Exception) -> None:
            self._ended(lambda: kind.failed(items, error))

        return self._worker.submit(lambda: kind.job(items), done, failed)

    def _ended(self, callback: Callable[[], None]) -> None:
        try:
            callback()  # tasks that it queues join one job: the next one starts only below
        finally:
            self._is_running = False
            self._next()
