"""Things asked for one by one that a worker's thread does many at a time: a hundred topics are made by one round of calls.

All kinds wait in one line, so nothing overtakes what was asked for before it; things of one kind that follow each other are one
job. One job is under way at a time: what comes meanwhile is the next. Lives on the loop thread, knows nothing of topics."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ..errors import Overloaded
from .worker import Worker

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_WAITING = 1_000
MOST_COST = 128
"""Of one job: others' commits and reads wait behind it on the same thread. A topic of one partition costs 1 and takes 1 ms."""


class Kind(NamedTuple, Generic[Item, Result]):
    """How things of one kind are done. Two kinds are the same when they are the same object."""

    job: Callable[[Sequence[Item]], Result]
    """Does some, on the worker's thread."""
    done: Callable[[Sequence[Item], Result], None]
    """Is told, on the loop, what has become of them."""
    failed: Callable[[Sequence[Item], Exception], None]
    """Is told, on the loop, why none of them has a result."""


class _Waiting(NamedTuple):
    kind: Kind[Any, Any]
    item: Any
    cost: int


class BatchedJobs:
    """The line."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._line: deque[_Waiting] = deque()
        self._is_under_way = False

    def put(self, kind: Kind[Item, Any], item: Item, *, cost: int = 1, is_asked: bool = True) -> None:
        """Have one thing done. `failed` is called at once, with `Overloaded`, when too many wait; but not for what nobody asks
        for and has to be done all the same.
        """
        if is_asked and len(self._line) >= MOST_WAITING:
            kind.failed((item,), Overloaded())
            return
        self._line.append(_Waiting(kind, item, cost))
        self._next()

    def _next(self) -> None:
        while self._line and not self._is_under_way:
            kind, items = self._line[0].kind, self._first()
            self._is_under_way = self._submit(kind, items)
            if not self._is_under_way:
                kind.failed(items, Overloaded())

    def _first(self) -> list[Any]:
        """Take the next job's things out of the line: at least one."""
        first = self._line.popleft()
        items, cost = [first.item], first.cost
        while self._line and self._line[0].kind is first.kind and cost + self._line[0].cost <= MOST_COST:
            following = self._line.popleft()
            items.append(following.item)
            cost += following.cost
        return items

    def _submit(self, kind: Kind[Any, Any], items: Sequence[Any]) -> bool:
        def done(result: Any) -> None:
            self._ended(lambda: kind.done(items, result))

        def failed(error: Exception) -> None:
            self._ended(lambda: kind.failed(items, error))

        return self._worker.submit(lambda: kind.job(items), done, failed)

    def _ended(self, tell: Callable[[], None]) -> None:
        try:
            tell()  # what is asked for from within it is one job, too
        finally:
            self._is_under_way = False
            self._next()
