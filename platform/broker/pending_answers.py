"""Answers of one connection that are not there yet, and those that stand in line behind them. Lives on the loop thread.

Keeps the order of the requests and wakes answers whose deadline has come. Sends nothing; bounds nothing, but says how many there
are and what they will take."""

from collections import deque
from collections.abc import Callable

from .later import Chunks, Later
from .loop import Loop


class PendingAnswers:
    """`laters` are in the order of their requests; the first is not complete once `ready` has been asked."""

    __slots__ = ("_loop", "_on_ready", "_timer_at_ms", "expected_bytes", "laters")

    def __init__(self, loop: Loop, on_ready: Callable[[], None]) -> None:
        """`on_ready` is called when one has got its answer, wherever it stands."""
        self._loop = loop
        self._on_ready = on_ready
        self._timer_at_ms: int | None = None
        self.laters: deque[Later] = deque()
        self.expected_bytes = 0

    def park(self, later: Later) -> None:
        """Put an answer at the end of the line; one that is there already waits for those before it."""
        self.laters.append(later)
        self.expected_bytes += later.expected_bytes
        if later.answer is None:
            later.attach(self._answered)
        if later.deadline_ms is not None:
            self._set_timer(later.deadline_ms)

    def park_given(self, answer: Chunks) -> None:
        """Put an answer that is there already behind pending ones."""
        later = Later()
        later.expected_bytes = sum(map(len, answer))
        later.complete(answer)
        self.park(later)

    def ready(self) -> list[Chunks]:
        """Take out the answers at the front that are there."""
        laters = self.laters
        answers: list[Chunks] = []
        while laters and (first := laters[0].answer) is not None:
            self.expected_bytes -= laters.popleft().expected_bytes
            answers.append(first)
        return answers

    def hurry(self) -> None:
        """Ask for all of them at once: the peer sends no more."""
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
        # One entry a connection: a fetch that is answered early leaves its entry for the next one to use.
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
