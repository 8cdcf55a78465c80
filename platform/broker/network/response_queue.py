"""Pending responses of one connection, and complete ones that wait behind them. Lives on the loop thread.

Keeps the order of the requests and expires pending responses at their deadline. Sends nothing and bounds nothing: its owner
reads how many wait and how many bytes they will take."""

from collections import deque
from collections.abc import Callable

from ..event_loop.deferred_response import Chunks, DeferredResponse
from ..event_loop.loop import Loop
from .send_queue import SendQueue


class ResponseQueue:
    """`deferreds` are in the order of their requests. After a call of `ready` the first one is not complete."""

    __slots__ = ("_is_finishing", "_loop", "_on_ready", "_send_queue", "_timer_at_ms", "deferreds", "expected_bytes")

    def __init__(self, loop: Loop, send_queue: SendQueue, on_ready: Callable[[], None]) -> None:
        """`on_ready` is called whenever a pending response completes, the first or a later one."""
        self._loop = loop
        self._send_queue = send_queue
        self._is_finishing = False
        self._on_ready = on_ready
        self._timer_at_ms: int | None = None
        self.deferreds: deque[DeferredResponse] = deque()
        self.expected_bytes = 0

    def give(self, answer: bytes | Chunks | DeferredResponse | None) -> bool:
        """Add a response behind those before it: to the send queue when none is pending, else here. Return whether it is a
        DeferredResponse that waits."""
        if isinstance(answer, DeferredResponse):
            if self._is_finishing:
                answer.finish_now()
            if answer.answer is None or self.deferreds:
                self.park(answer)
                return True
            self._send_queue.put(answer.answer)
        elif answer is None:
            pass
        elif self.deferreds:
            self.park_complete((answer,) if isinstance(answer, bytes) else answer)
        elif isinstance(answer, bytes):
            self._send_queue.put_bytes(answer)
        else:
            self._send_queue.put(answer)
        return False

    def park(self, deferred: DeferredResponse) -> None:
        """Add a response at the end of the queue. A complete one waits for those before it."""
        self.deferreds.append(deferred)
        self.expected_bytes += deferred.expected_bytes
        if deferred.answer is None:
            deferred.attach(self._answered)
        if deferred.deadline_ms is not None:
            self._set_timer(deferred.deadline_ms)

    def park_complete(self, answer: Chunks) -> None:
        """Add a complete response behind pending ones."""
        deferred = DeferredResponse()
        deferred.expected_bytes = sum(map(len, answer))
        deferred.complete(answer)
        self.park(deferred)

    def ready(self) -> list[Chunks]:
        """Remove and return the complete responses at the head of the queue."""
        deferreds = self.deferreds
        answers: list[Chunks] = []
        while deferreds and (first := deferreds[0].answer) is not None:
            self.expected_bytes -= deferreds.popleft().expected_bytes
            answers.append(first)
        return answers

    def finish_now(self) -> None:
        """Finish every pending response now, and later ones as they are added: the peer sends no more."""
        self._is_finishing = True
        for deferred in tuple(self.deferreds):
            deferred.finish_now()

    def cancel(self) -> None:
        """Cancel all pending responses: the connection is closed."""
        deferreds, self.deferreds = self.deferreds, deque()
        for deferred in deferreds:
            deferred.cancel()

    def _answered(self, _: Chunks) -> None:
        self._on_ready()

    def _set_timer(self, deadline_ms: int) -> None:
        # One timer a connection: a fetch that is answered early leaves its timer to the next fetch.
        if self._timer_at_ms is None or deadline_ms < self._timer_at_ms:
            self._timer_at_ms = deadline_ms
            self._loop.call_at(deadline_ms, self._on_timer)

    def _on_timer(self) -> None:
        now_ms = self._loop.now_ms
        if self._timer_at_ms is not None and now_ms >= self._timer_at_ms:
            self._timer_at_ms = None
        deferred = self.deferreds[0] if self.deferreds else None
        if deferred is None or deferred.deadline_ms is None:
            return
        if deferred.deadline_ms <= now_ms:
            deferred.expire()
        else:
            self._set_timer(deferred.deadline_ms)
