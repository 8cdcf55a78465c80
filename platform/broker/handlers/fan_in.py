"""Makes one response from several jobs that end at different times: topics to create, settings to change.

A job that is not done at the deadline continues, and the response says so with the protocol's own error code."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Generic, TypeVar

from ...wire.errors import ErrorCode
from ..errors import NotEnoughBrokers, NotMorePartitions
from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.response_generators import SLICE_NS
from ..log import LogError
from .broker import Broker

Key = TypeVar("Key")
Result = TypeVar("Result")

MOST_AT_ONCE = 100
"""Jobs of one request that run together. Ten thousand topics would fill the worker's queue and keep others waiting."""
LONGEST_WAIT_MS = 60_000
"""For a request without a timeout or with a longer one. By then every call to ZooKeeper has ended."""

NAMED_TWICE = "named twice in one request"
STILL_UNDER_WAY = "not known yet whether it is done: it was asked for and may still happen, look again"


class _NeverFinishedEarly(DeferredResponse):
    """A response that ignores `finish_now`: a peer that has finished sending still gets the true outcome."""

    __slots__ = ()

    def finish_now(self) -> None:
        pass


class FanIn(Generic[Key, Result]):
    """Begins a job for each key, waits for the results, and completes the response that `answer` makes of them, in the order of
    `keys`.

    `overdue` returns the result for a key that has none after `timeout_ms`. Jobs that have not begun by then, or when the client
    has disconnected, never begin."""

    def __init__(
        self,
        broker: Broker,
        keys: Iterable[Key],
        *,
        timeout_ms: int,
        overdue: Callable[[Key], Result],
        answer: Callable[[Mapping[Key, Result]], Generator[None, None, bytes]],
    ) -> None:
        self._loop = broker.loop
        self._generators = broker.generators
        self._results: dict[Key, Result | None] = dict.fromkeys(keys)
        self._waiting = set(self._results)
        self._to_begin = deque(self._results)
        self._begin: Callable[[Key], None] = self._waiting.discard
        self._under_way = 0
        self._is_beginning = False
        self._is_answering = False
        self._overdue = overdue
        self._answer = answer
        wait_ms = min(timeout_ms, LONGEST_WAIT_MS) if timeout_ms > 0 else LONGEST_WAIT_MS
        self.deferred = _NeverFinishedEarly(deadline_ms=broker.loop.now_ms + wait_ms, at_deadline=self._give)

    def start(self, begin: Callable[[Key], None]) -> DeferredResponse:
        """Return the pending response. `begin` is called for each key, with a bounded number of jobs under way; each job must end
        with a call of `put`.
        """
        self._begin = begin
        self._begin_more()
        return self.deferred

    def put(self, key: Key, result: Result) -> None:
        """Set the result of one key. The last one completes the response. A result after that is ignored."""
        if key not in self._waiting:
            return
        self._results[key] = result
        self._waiting.discard(key)
        self._under_way -= 1
        if not self._waiting:
            self._give()
        else:
            self._begin_more()

    def _begin_more(self) -> None:
        if self._is_beginning:
            return  # `begin` may call `put` itself
        self._is_beginning = True
        clock_ns = self._loop.clock_ns
        until_ns = clock_ns() + SLICE_NS
        while self._to_begin and self._under_way < MOST_AT_ONCE and not (self.deferred.ended or self._is_answering):
            if clock_ns() > until_ns:
                self._loop.post(self._begin_more)  # thousands of keys may have their results immediately
                break
            self._under_way += 1
            self._begin(self._to_begin.popleft())
        self._is_beginning = False

    def _give(self) -> None:
        if not self._is_answering:
            self._is_answering = True
            self._generators.complete(self.deferred, self._answer(self._whole()))

    def _whole(self) -> dict[Key, Result]:
        return {key: self._overdue(key) if result is None else result for key, result in self._results.items()}


def outcome_of(outcome: bool | Exception, topic: str, *, not_done: str) -> tuple[ErrorCode, str | None]:
    """Return error code and message for a topic's outcome: True (done), False (there is no such topic) or the error."""
    if outcome is True:
        return ErrorCode.NONE, None
    if outcome is False:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}"
    return code_of(outcome), f"topic {topic!r} {not_done}: {outcome}"


def code_of(error: Exception) -> ErrorCode:
    """Return the error code for a failed call of ZooKeeper or of the disk."""
    if isinstance(error, LogError):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if isinstance(error, NotMorePartitions):
        return ErrorCode.INVALID_PARTITIONS
    if isinstance(error, NotEnoughBrokers):
        return ErrorCode.INVALID_REPLICATION_FACTOR
    return ErrorCode.REQUEST_TIMED_OUT
