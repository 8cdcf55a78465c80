"""One answer about several things, each of which is done by somebody else in its own time: topics made, settings changed.

Pure but for the answer that it completes. What was asked for goes on when its time is over: the answer then says so, and the
protocol has a code for it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from ...wire.errors import ErrorCode
from ..errors import NotMorePartitions
from ..later import Later
from ..log import LogError
from .context import Context, respond

Key = TypeVar("Key")
Result = TypeVar("Result")

LONGEST_WAIT_MS = 60_000
"""Of a request that names no time, or a longer one: by then every call to ZooKeeper has ended."""

STILL_UNDER_WAY = "not known yet whether it is done: it was asked for and may still happen, look again"


class _Patient(Later):
    """A peer that has finished sending still gets the true outcome, not the one of a time that is over."""

    __slots__ = ()

    def hurry(self) -> None:
        pass


class Gathering(Generic[Key, Result]):
    """Waits for a result for each key, then gives the answer that `answer` makes of all, in the order of `keys`.

    `overdue` makes the result of a key that has none when `timeout_ms` are over."""

    def __init__(
        self,
        context: Context,
        keys: Iterable[Key],
        *,
        timeout_ms: int,
        overdue: Callable[[Key], Result],
        answer: Callable[[Mapping[Key, Result]], bytes],
    ) -> None:
        self._results: dict[Key, Result | None] = dict.fromkeys(keys)
        self._waiting = set(self._results)
        self._overdue = overdue
        self._answer = answer
        wait_ms = min(timeout_ms, LONGEST_WAIT_MS) if timeout_ms > 0 else LONGEST_WAIT_MS
        self.later = _Patient(deadline_ms=context.loop.now_ms + wait_ms, at_deadline=lambda: respond(self._answer(self._whole())))

    def put(self, key: Key, result: Result) -> None:
        """Give the result of one key; the last one gives the answer. One that comes after the answer is let go."""
        if key not in self._waiting:
            return
        self._results[key] = result
        self._waiting.discard(key)
        if not self._waiting:
            self.later.complete(respond(self._answer(self._whole())))

    def _whole(self) -> dict[Key, Result]:
        return {key: self._overdue(key) if result is None else result for key, result in self._results.items()}


def code_of(error: Exception) -> ErrorCode:
    """Return what the protocol calls it when something asked of ZooKeeper or of the disk could not be done."""
    if isinstance(error, LogError):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if isinstance(error, NotMorePartitions):
        return ErrorCode.INVALID_PARTITIONS
    return ErrorCode.REQUEST_TIMED_OUT
