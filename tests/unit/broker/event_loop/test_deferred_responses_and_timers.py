"""A pending response ends once; timers are due in order."""

from functools import partial

from headrace.broker.event_loop.deferred_response import DeferredResponse
from headrace.broker.event_loop.timers import Timers


def test_a_later_is_answered_once_whoever_comes_first() -> None:
    delivered: list[object] = []
    deferred = DeferredResponse(deadline_ms=5, at_deadline=lambda: [b"late"], cancelled=lambda: delivered.append("abandoned"))
    deferred.attach(delivered.append)
    deferred.complete([b"answer"])
    deferred.expire()
    deferred.cancel()
    deferred.complete([b"again"])
    assert delivered == [[b"answer"]]


def test_a_later_that_was_complete_before_it_was_wrapped_is_wrapped_all_the_same() -> None:
    deferred = DeferredResponse()
    deferred.complete([b"body"])
    deferred.wrap(lambda chunks: [b"head", *chunks])
    assert deferred.answer == [b"head", b"body"]


def test_an_abandoned_later_delivers_nothing_any_more() -> None:
    left: list[str] = []
    deferred = DeferredResponse(cancelled=lambda: left.append("left"))
    deferred.attach(lambda answer: left.append("delivered"))
    deferred.cancel()
    deferred.complete([b"answer"])
    assert left == ["left"]


def test_timers_come_due_in_the_order_of_their_times_then_of_their_setting() -> None:
    timers, calls = Timers(), list[str]()
    for at_ms, name in ((20, "c"), (10, "a"), (10, "b"), (30, "d")):
        timers.call_at(at_ms, partial(calls.append, name))
    assert timers.wait_ms(0, 1_000) == 10
    for function in timers.due(20):
        function()
    assert calls == ["a", "b", "c"]
    assert (len(timers), timers.wait_ms(40, 1_000)) == (1, 0)


def test_without_timers_the_wait_is_the_longest() -> None:
    assert Timers().wait_ms(0, 700) == 700
