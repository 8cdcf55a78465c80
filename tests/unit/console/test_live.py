"""Live rows: bounded in flight and in number, and stopped with the client."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.console import live
from headrace.console.live import Streams, events
from headrace.errors import HeadraceError
from tests.support.processes import eventually


def rows_of(*numbers: int) -> Callable[[Callable[[], bool]], Iterator[dict[str, Any]]]:
    return lambda is_stopped: iter([{"n": one} for one in numbers])


def everything(begin: Any, streams: Streams | None = None) -> list[bytes]:
    async def read() -> list[bytes]:
        return [piece async for piece in events(streams or Streams(), begin)]

    return asyncio.run(read())


def test_rows_come_as_events_and_the_end_says_why() -> None:
    pieces = everything(rows_of(1, 2))
    (data,) = (json.loads(piece[6:]) for piece in pieces if piece.startswith(b"data: "))
    assert data == {"rows": [{"n": 1}, {"n": 2}], "left_out": 0}
    assert pieces[-1] == b'event: ended\ndata: "the reading ended"\n\n'


def test_rows_that_a_slow_client_has_not_taken_are_counted_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_WAITING", 3)
    pieces = everything(rows_of(*range(10)))
    found = [json.loads(piece[6:]) for piece in pieces if piece.startswith(b"data: ")]
    assert sum(len(one["rows"]) for one in found) + sum(one["left_out"] for one in found) == 10
    assert max(len(one["rows"]) for one in found) <= 3


def test_a_reading_that_fails_ends_the_stream_with_its_words() -> None:
    def begin(is_stopped: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        raise HeadraceError("the cluster is away")

    assert everything(begin)[-1] == b'event: ended\ndata: "the cluster is away"\n\n'


def test_more_streams_than_there_is_room_for_are_told_to_come_back_and_seats_are_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 1)
    streams = Streams()
    assert streams.take()
    (only,) = everything(rows_of(1), streams)
    assert b"open already" in only
    streams.leave()
    for _ in range(3):
        assert len(everything(rows_of(1), streams)) > 1
        eventually(lambda: streams.take() and (streams.leave() or True), what="the seat is free again")  # type: ignore[func-returns-value]


def test_the_reading_stops_when_the_client_goes() -> None:
    asked: list[Callable[[], bool]] = []
    has_begun = threading.Event()

    def begin(is_stopped: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        asked.append(is_stopped)
        has_begun.set()
        number = 0
        while not is_stopped():
            number += 1
            yield {"n": number}
            threading.Event().wait(0.01)

    async def read_one() -> None:
        stream = events(Streams(), begin)
        async for piece in stream:
            if piece.startswith(b"data: "):
                break
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(read_one())
    assert has_begun.is_set()
    assert asked[0]()


def test_a_stream_ends_after_a_while_and_says_that_it_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LONGEST_S", 0.2)
    monkeypatch.setattr(live, "STILL_HERE_S", 0.05)

    def silent(is_stopped: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        while not is_stopped():
            threading.Event().wait(0.01)
        return iter(())

    pieces = everything(silent)
    assert pieces[0] == b": the stream has begun\n\n"
    assert pieces[1:]
    assert set(pieces[1:]) == {b": still here\n\n"}
