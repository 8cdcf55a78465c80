"""Runs handlers that are generators, a slice of time each turn, so that a long response does not keep the loop.

A generator pauses at every `yield`. When its slice is over it continues in the next turn. Generators run one after the other, in
the order in which they came, so that only one response is large in memory. Requests that wait are bounded by their bytes.
Lives on the loop thread. Knows no API.

Trap: the loop serves nothing else between two pauses. A generator must not copy, sort or read a whole message between them."""

from collections import deque
from collections.abc import Generator
from typing import NamedTuple

from ..errors import FrameRefused
from .deferred_response import Chunk, Chunks, DeferredResponse
from .loop import Loop

SLICE_NS = 2_000_000
MOST_WAITING_BYTES = 64 << 20
"""Bytes of requests that have had their first slice and wait for the next."""

ResponseGenerator = Generator[None, None, bytes | DeferredResponse]
"""Returns a response or a pending one. It yields wherever the loop may serve others."""


class ResponseGenerators:
    """Runs generators."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._jobs: deque[_Job] = deque()
        self._is_posted = False
        self.waiting_bytes = 0

    def __len__(self) -> int:
        """Return how many wait for their next slice."""
        return len(self._jobs)

    def answer(self, steps: ResponseGenerator, request_bytes: int) -> bytes | DeferredResponse:
        """Return the response of `steps` when one slice is enough, else a DeferredResponse for it.

        Raises: FrameRefused when too many bytes of requests wait already; what `steps` raises in its first slice. An error that
        it raises later closes the waiting connection, as an error in the first slice does.
        """
        outcome = self._slice(steps)
        if outcome is not None:
            return outcome
        if self.waiting_bytes + request_bytes > MOST_WAITING_BYTES:
            steps.close()
            why = f"long requests of {self.waiting_bytes} bytes wait already (at most {MOST_WAITING_BYTES}): ask for less at once"
            raise FrameRefused(f"{why}, or later", "overloaded")
        deferred = _Following(self._loop)
        self._put(_Job(steps, deferred, request_bytes))
        return deferred

    def complete(self, deferred: DeferredResponse, steps: Generator[None, None, bytes]) -> None:
        """Complete a pending response with the bytes that `steps` returns: now where one slice is enough, else later."""
        job = _Job(steps, deferred, 0)
        if deferred.ended:
            steps.close()
        elif (outcome := self._attempt(steps)) is not None:
            _give(deferred, outcome)
        else:
            self._put(job)

    def _put(self, job: "_Job") -> None:
        self._jobs.append(job)
        self.waiting_bytes += job.request_bytes
        self._post()

    def _post(self) -> None:
        if self._jobs and not self._is_posted:
            self._is_posted = True
            self._loop.post(self._resume)

    def _resume(self) -> None:
        self._is_posted = False
        job = self._jobs[0]
        outcome = None if job.deferred.ended else self._attempt(job.steps)
        if outcome is not None or job.deferred.ended:
            self._jobs.popleft()
            self.waiting_bytes -= job.request_bytes
            job.steps.close()
        self._post()
        if outcome is not None:
            _give(job.deferred, outcome)

    def _slice(self, steps: ResponseGenerator) -> bytes | DeferredResponse | None:
        """Return the generator's result, None when it has not ended within one slice."""
        clock_ns = self._loop.clock_ns
        until_ns = clock_ns() + SLICE_NS
        try:
            next(steps)
            while clock_ns() < until_ns:
                next(steps)
        except StopIteration as end:
            made: bytes | DeferredResponse = end.value
            return made
        return None

    def _attempt(self, steps: ResponseGenerator) -> bytes | DeferredResponse | Chunk | None:
        try:
            return self._slice(steps)
        except Exception as error:
            return _Fault(error)


class _Job(NamedTuple):
    steps: Generator[None, None, bytes | DeferredResponse]
    deferred: DeferredResponse
    request_bytes: int


class _Following(DeferredResponse):
    """A generator's pending response. When the generator returns a DeferredResponse, this one follows it."""

    __slots__ = ("_inner", "_is_hurried", "_loop")

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop
        self._inner: DeferredResponse | None = None
        self._is_hurried = False

    def follow(self, inner: DeferredResponse) -> None:
        if inner.answer is not None:
            self.complete(inner.answer)
            return
        self._inner = inner
        inner.attach(self.complete)
        if inner.deadline_ms is not None:
            self._loop.call_at(inner.deadline_ms, self.expire)
        if self._is_hurried:
            inner.finish_now()

    def expire(self) -> None:
        if self._inner is not None:
            self._inner.expire()

    def finish_now(self) -> None:
        self._is_hurried = True
        if self._inner is not None:
            self._inner.finish_now()

    def cancel(self) -> None:
        if self._inner is not None:
            self._inner.cancel()
        super().cancel()


class _Fault:
    """Takes the place of a response whose generator failed. Sending it raises the error, which closes the connection."""

    def __init__(self, why: Exception) -> None:
        self._why = why

    def __len__(self) -> int:
        return 1

    @property
    def fd(self) -> int:
        raise self._why

    @property
    def position(self) -> int:
        return 0


def _give(deferred: DeferredResponse, outcome: bytes | DeferredResponse | Chunk) -> None:
    if isinstance(outcome, DeferredResponse):
        assert isinstance(deferred, _Following)
        deferred.follow(outcome)
    else:
        chunks: Chunks = (outcome,)
        deferred.complete(chunks)
