"""An answer that comes later, when it has come: nobody holds it any more."""

import gc
import weakref
from collections.abc import Callable

import pytest

from headrace.broker.event_loop.deferred_response import Chunks, DeferredResponse


class Parked:
    """Holds its answer and is held by it, as a parked fetch."""

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
    """Thousands of parked fetches a second made the collector stop the loop for 20 ms, once a second."""
    gc.disable()
    try:
        parked = Parked()
        deferred, seen = parked.deferred, weakref.ref(parked)
        del parked
        end(deferred)
        assert seen() is None
    finally:
        gc.enable()
