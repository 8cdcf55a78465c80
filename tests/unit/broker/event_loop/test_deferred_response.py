"""A completed deferred response is freed without the garbage collector."""

import gc
import weakref
from collections.abc import Callable

import pytest

from headrace.broker.event_loop.deferred_response import Chunks, DeferredResponse


class Parked:
    """Refers to its response and is referred to by it, as a parked fetch."""

    def __init__(self) -> None:
        self.deferred = DeferredResponse(deadline_ms=1, at_deadline=self.give_up, cancelled=self.leave)
        self.deferred.wrap(lambda chunks: [b"head", *chunks])
        self.deferred.attach(self.delivered)

    def give_up(self) -> Chunks:
        return [b"too late"]

    def leave(self) -> None:
        pass

    def delivered(self, answer: Chunks) -> None:
        pass


@pytest.mark.parametrize(
    "end",
    [lambda deferred: deferred.complete([b"body"]), DeferredResponse.expire, DeferredResponse.cancel],
    ids=["complete", "expire", "abandon"],
)
def test_who_waited_is_gone_with_the_answer_and_not_left_to_the_collector(end: Callable[[DeferredResponse], None]) -> None:
    """The cycles of thousands of parked fetches made the garbage collector stop the loop for 20 ms, once a second."""
    gc.disable()
    try:
        parked = Parked()
        deferred, seen = parked.deferred, weakref.ref(parked)
        del parked
        end(deferred)
        assert seen() is None
    finally:
        gc.enable()
