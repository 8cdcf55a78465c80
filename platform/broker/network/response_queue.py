"""Pending answers of one connection, and complete ones that stand in line behind them. Lives on the loop thread.

Keeps the order of the requests and ends pending answers whose deadline has come. Sends nothing and bounds nothing; its owner
reads how many wait and what they will take."""

from collections import deque
from collections.abc import Callable

from ..event_loop.deferred_response import Chunks, Later
from ..event_loop.loop import Loop
from .send_queue import Outbox


class PendingAnswers:
    """`laters` are in the order of their requests. After a call of `ready` the first one is not complete."""

    __slots__ = ("_is_hurried", "_loop", "_on_ready", "_outbox", "_timer_at_ms", "expected_bytes", "laters")

    def __init__(self, loop: Loop, outbox: Outbox, on_ready: Callable[[], None]) -> None:
        """`on_ready` is called when a pending answer is complete, wherever it stands in line."""
        self._loop = loop
        self._outbox = outbox
        self._is_hurried = False
        self._on_ready = on_ready
        self._timer_at_ms: int | None = None
        self.laters: deque[Later] = deque()
        self.expected_bytes = 0

    def give(self, answer: bytes | Chunks | Later | None) -> bool:
        """Put an answer behind those before it: into the outbox, else in line. Return whether it is a Later that waits."""
        if isinstance(answer, Later):
            if self._is_hurried:
                answer.hurry()
            if answer.answer is None or self.laters:
                self.park(answer)
                return True
            self._outbox.put(answer.answer)
        elif answer is None:
            pass
        elif self.laters:
            self.park_given((answer,) if isinstance(answer, bytes) else answer)
        elif isinstance(answer, bytes):
            self._outbox.put_bytes(answer)
        else:
            self._outbox.put(answer)
        return False

    def park(self, later: Later) -> None:
        """Put an answer at the end of the line. A complete one waits for those before it."""
        self.laters.append(later)
        self.expected_bytes += later.expected_bytes
        if later.answer is None:
            later.attach(self._answered)
        if later.deadline_ms is not None:
            self._set_timer(later.deadline_ms)

    def park_given(self, answer: Chunks) -> None:
        """Put a complete answer behind pending ones."""
        later = Later()
        later.expected_bytes = sum(map(len, answer))
        later.complete(answer)
        self.park(later)

    def ready(self) -> list[Chunks]:
        """Take the complete answers at the front out of the line."""
        laters = self.laters
        answers: list[Chunks] = []
        while laters and (first := laters[0].answer) is not None:
            self.expected_bytes -= laters.popleft().expected_bytes
            answers.append(first)
        return answers

    def hurry(self) -> None:
        """Ask for every pending answer at once, and for those that come from now on: the peer sends no more."""
        self._is_hurried = True
        for later in tuple(self.laters):
            later.hurry()

    def abandon(self) -> None:
        """Nobody waits any more."""
        laters, self.laters = self.laters, deque()
        for later in laters:
            later.abandon()

    def _answered(self, _: Chunks) -> None:
        self._on_ready()

    def _set_timer(self, deadline_ms: int) -> None:
        # One timer a connection: a fetch that is answered early leaves its timer to the next one.
        if self._timer_at_ms is None or deadline_ms < self._timer_at_ms:
            self._timer_at_ms = deadline_ms
            self._loop.call_at(deadline_ms, self._on_timer)

    def _on_timer(self) -> None:
        now_ms = self._loop.now_ms
        if self._timer_at_ms is not None and now_ms >= self._timer_at_ms:
            self._timer_at_ms = None
        later = self.laters[0] if self.laters else None
        if later is None or later.deadline_ms is None:
            return
        if later.deadline_ms <= now_ms:
            later.expire()
        else:
            self._set_timer(later.deadline_ms)
