"""A response that is completed later. A handler returns one when something else must happen first.

One of three events ends it, once: its owner completes it, its deadline passes, or its connection closes. Pure; used on the loop
thread only."""

from collections.abc import Callable, Sequence
from typing import Protocol


class Region(Protocol):
    """Bytes of a file that go from the page cache to the socket without being copied here (the log's `FileRegion`)."""

    @property
    def fd(self) -> int: ...

    @property
    def position(self) -> int: ...

    def __len__(self) -> int: ...


Chunk = bytes | Region
Chunks = Sequence[Chunk]


class DeferredResponse:
    """A pending response.

    `at_deadline` returns the response to send when `deadline_ms` (monotonic) has passed, or None when `complete` will be called
    soon without a deadline. `finish_now` asks for the response early, for a peer that has finished sending. `cancelled` is
    called when the connection is closed and the response will not be read."""

    __slots__ = ("_at_deadline", "_cancelled", "_deliver", "_wrap", "answer", "deadline_ms", "ended", "expected_bytes")

    def __init__(
        self,
        *,
        deadline_ms: int | None = None,
        at_deadline: Callable[[], Chunks | None] | None = None,
        cancelled: Callable[[], None] | None = None,
    ) -> None:
        self.deadline_ms = deadline_ms
        self._at_deadline = at_deadline
        self._cancelled = cancelled
        self._deliver: Callable[[Chunks], None] | None = None
        self._wrap: Callable[[Chunks], Chunks] | None = None
        self.answer: Chunks | None = None
        self.ended = False
        self.expected_bytes = 0
        """How much the response counts against the connection's bound while it waits, where several may wait."""

    def complete(self, answer: Chunks) -> None:
        """Set the response's body. A second one, or one after the end, is ignored."""
        if self.ended:
            return
        self.ended = True
        self.answer = answer if self._wrap is None else self._wrap(answer)
        deliver = self._deliver
        self._break_cycles()
        if deliver is not None:
            deliver(self.answer)

    def expire(self) -> None:
        """Complete it with what `at_deadline` returns."""
        if not self.ended and self._at_deadline is not None and (answer := self._at_deadline()) is not None:
            self.complete(answer)

    finish_now = expire

    def cancel(self) -> None:
        """End it without a response: its connection is closed."""
        if self.ended:
            return
        self.ended = True
        cancelled = self._cancelled
        self._break_cycles()
        if cancelled is not None:
            cancelled()

    def wrap(self, wrap: Callable[[Chunks], Chunks]) -> None:
        """Set the function that makes a frame of the body. Called by the router. Applied now when there is a body already.

        A second one gets what the first has made.
        """
        before = self._wrap
        self._wrap = wrap if before is None else lambda body: wrap(before(body))
        if self.answer is not None:
            self.answer = wrap(self.answer)

    def attach(self, deliver: Callable[[Chunks], None]) -> None:
        """Set the receiver of the response. Called by the server when the handler has returned without a complete one."""
        self._deliver = deliver

    def _break_cycles(self) -> None:
        # The waiting objects and this one refer to each other. Left to the garbage collector, thousands of such cycles stopped
        # the loop for 20 ms a second.
        self._at_deadline = self._cancelled = self._deliver = self._wrap = None
