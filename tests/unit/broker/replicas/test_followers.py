"""The leader's side of the messages: sessions are of one process and connection, polls wait and are answered together."""

from typing import Any
from uuid import UUID

import pytest

from headrace.broker.event_loop.deferred_response import DeferredResponse
from headrace.broker.event_loop.loop import Loop
from headrace.broker.replicas import followers, messages
from headrace.broker.replicas.followers import LOST_MS, Followers
from headrace.broker.replicas.messages import Refusal, Sender

KEY = (UUID(int=5), 0)


class Driver:
    """What is used of a driver."""

    def __init__(self) -> None:
        self.key = KEY
        self.outgoing: dict[int, Any] = {}
        self.lost: list[int] = []

    def follower_lost(self, broker_id: int) -> None:
        self.lost.append(broker_id)

    def answer_for(self, to: int, most_bytes: int) -> None:
        return None


def poll(of: Followers, sender: Sender) -> Any:
    return of.poll(memoryview(messages.encode_poll(sender)))


def said(response: Any) -> list[Any]:
    body = response if isinstance(response, bytes) else b"".join(response.answer)
    return list(messages.decode_response(memoryview(body)))


@pytest.fixture
def parts() -> tuple[Loop, Driver, Followers]:
    loop, driver = Loop(), Driver()
    return loop, driver, Followers(loop, lambda key: None, lambda: [driver])  # type: ignore[list-item, return-value]


def test_a_poll_waits_until_there_is_something(parts: tuple[Loop, Driver, Followers]) -> None:
    loop, driver, of = parts
    waiting = poll(of, Sender(2, 1, 1))
    assert isinstance(waiting, DeferredResponse)
    of.refuse(driver, 2, 7)  # type: ignore[arg-type]
    loop._turn([])
    assert said(waiting) == [Refusal(KEY, 7)]
    of.refuse(driver, 2, 8)  # type: ignore[arg-type]
    assert said(poll(of, Sender(2, 1, 1))) == [Refusal(KEY, 8)]


def test_a_new_process_or_connection_ends_the_one_before(parts: tuple[Loop, Driver, Followers]) -> None:
    _, driver, of = parts
    waiting = poll(of, Sender(2, 1, 5))
    driver.outgoing[2] = object()
    assert isinstance(poll(of, Sender(2, 2, 1)), DeferredResponse)
    assert said(waiting) == []
    assert driver.outgoing == {}, "what was sent to the old one is sent again"
    assert poll(of, Sender(2, 1, 6)) == messages.encode_response(()), "an earlier process gets nothing"


def test_a_follower_that_polls_no_more_is_lost_once(parts: tuple[Loop, Driver, Followers]) -> None:
    loop, driver, of = parts
    waiting = poll(of, Sender(2, 1, 1))
    of.look_for_lost()
    loop.now_ms += 10 * LOST_MS
    of.look_for_lost()
    assert driver.lost == [], "its poll waits here"
    waiting.expire()
    of.look_for_lost()
    assert driver.lost == []
    loop.now_ms += LOST_MS
    of.look_for_lost()
    of.look_for_lost()
    assert driver.lost == [2]


def test_sessions_have_a_bound(parts: tuple[Loop, Driver, Followers], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "MOST_SESSIONS", 2)
    of = parts[2]
    assert isinstance(poll(of, Sender(1, 1, 1)), DeferredResponse)
    assert isinstance(poll(of, Sender(2, 1, 1)), DeferredResponse)
    assert poll(of, Sender(3, 1, 1)) == messages.encode_response(())


def test_a_partition_that_is_not_here_is_refused(parts: tuple[Loop, Driver, Followers]) -> None:
    of = parts[2]
    sender = Sender(2, 1, 1)
    body = messages.encode_tell(sender, [])
    of.tell(memoryview(body))
    from .test_messages import FETCH

    of.tell(memoryview(messages.encode_tell(sender, [(KEY, FETCH)])))
    assert said(poll(of, sender)) == [Refusal(KEY, 0)]
