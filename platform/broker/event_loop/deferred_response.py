"""An answer that comes later: what a handler returns when something else must happen first. Pure; used on the loop thread
only.

One of three things ends it, once: somebody completes it, its deadline passes, its connection goes away.
"""

from collections.abc import Callable, Sequence
from typing import Protocol


class Slice(Protocol):
    """Bytes of a file that go from the page cache to the socket unseen (the log's `FileRegion`)."""

    @property
    def fd(self) -> int: ...

    @property
    def position(self) -> int: ...

    def __len__(self) -> int: ...


Chunk = bytes | Slice
Chunks = Sequence[Chunk]


class DeferredResponse:
    """A pending answer.

    `at_deadline` returns the answer to give when `deadline_ms` (monotonic) has come, None when it comes by itself, soon; `hurry`
    asks for the answer at once, for a peer that has finished sending. `abandoned` is called when the connection is gone and
    nobody will read an answer."""

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
        """What the answer counts for among those that wait on one connection, where more than one may."""

    def complete(self, answer: Chunks) -> None:
        """Give the answer's body. A second one, or one after the end, is ignored."""
        if self.ended:
            return
        self.ended = True
        self.answer = answer if self._wrap is None else self._wrap(answer)
        deliver = self._deliver
        self._let_go()
        if deliver is not None:
            deliver(self.answer)

    def expire(self) -> None:
        """The deadline has come."""
        if not self.ended and self._at_deadline is not None and (answer := self._at_deadline()) is not None:
            self.complete(answer)

    finish_now = expire

    def cancel(self) -> None:
        """Nobody waits any more."""
        if self.ended:
            return
        self.ended = True
        cancelled = self._cancelled
        self._let_go()
        if cancelled is not None:
            cancelled()

    def wrap(self, wrap: Callable[[Chunks], Chunks]) -> None:
        """Say what turns the answer's body into its frame. The router does this, at once when the body is there already."""
        self._wrap = wrap
        if self.answer is not None:
            self.answer = wrap(self.answer)

    def attach(self, deliver: Callable[[Chunks], None]) -> None:
        """Say where the answer goes. The server does this, for an answer that was not complete when the handler returned."""
        self._deliver = deliver

    def _let_go(self) -> None:
        # Who waits holds this and is held by it: left to the collector, thousands of them stopped the loop for 20 ms a second.
        self._at_deadline = self._cancelled = self._deliver = self._wrap = None
