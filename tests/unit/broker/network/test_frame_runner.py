"""Which frames are answered, and when a connection stops. The dispatch is a double whose templates are numbers."""

from collections.abc import Sequence

import pytest

from headrace.broker.errors import FrameRefused
from headrace.broker.event_loop.deferred_response import DeferredResponse
from headrace.broker.event_loop.loop import Loop
from headrace.broker.network.frame_runner import Answer, FrameRunner
from headrace.broker.network.input_gathering import InputGathering
from headrace.broker.network.peer import Peer
from headrace.broker.network.response_queue import ResponseQueue
from headrace.broker.network.send_queue import SendQueue
from tests.support.raw_kafka import frame

PRODUCE, OTHER = 0, 3


class Dispatch:
    """Takes Produce frames two by two; other frames are answered by their number, or later."""

    def __init__(self) -> None:
        self.templates: list[int | None] = []
        self.answered: list[int] = []
        self.deferred: DeferredResponse | None = None

    def largest(self, api_key: int) -> int:
        return 1_000

    def take_run(
        self, template: int | None, buffer: memoryview, start: int, end: int, peer: Peer
    ) -> tuple[int | None, int, Sequence[Answer]]:
        self.templates.append(template)
        length = 4 + int.from_bytes(buffer[start : start + 4], "big")
        return (template or 0) + 1, min(start + 2 * length, end), (b"run",)

    def answer(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int, client_id_length: int, peer: Peer
    ) -> Answer:
        self.answered.append(correlation_id)
        return self.deferred if self.deferred is not None else bytes([correlation_id])


class Played:
    """A runner, and its responses."""

    def __init__(self, output_max_bytes: int = 1_000) -> None:
        self.loop = Loop()
        self.dispatch = Dispatch()
        self.send_queue = SendQueue()
        self.pending = ResponseQueue(self.loop, self.send_queue, lambda: None)
        self.runner = FrameRunner(
            self.dispatch,
            self.pending,
            self.send_queue,
            InputGathering(self.loop, 7),
            peer=Peer("peer", "PLAINTEXT"),
            output_max_bytes=output_max_bytes,
            give_way=lambda: None,
        )

    def run(self, data: bytes) -> int:
        used = self.runner.run(memoryview(data), 0, len(data))
        self.loop.close()
        return used


def test_the_template_of_a_run_is_given_to_the_next_one_unseen() -> None:
    played = Played()
    one = frame(PRODUCE, 9, 1, b"x")
    assert played.run(one * 6) == 6 * len(one)
    assert played.dispatch.templates == [None, 1, 2]


def test_behind_a_pending_answer_no_other_request_is_taken() -> None:
    played = Played()
    played.dispatch.deferred = DeferredResponse()
    one = frame(OTHER, 9, 1, b"x")
    assert played.run(one * 3) == len(one)
    assert played.dispatch.answered == [1]
    assert played.runner.is_held


def test_a_backlog_ends_the_run_and_the_rest_stays() -> None:
    played = Played(output_max_bytes=0)
    one = frame(OTHER, 9, 1, b"x")
    assert played.run(one * 3) == len(one)
    assert played.runner.is_backlogged()


def test_a_frame_that_is_not_whole_is_left_and_one_that_is_too_long_refused() -> None:
    played = Played()
    one = frame(OTHER, 9, 1, b"x" * 30)
    assert played.run(one[:-1]) == 0
    assert played.dispatch.answered == []
    with pytest.raises(FrameRefused):
        played.runner.run(memoryview((1_001).to_bytes(4, "big") + one[4:]), 0, len(one))


def test_after_the_end_nothing_is_answered() -> None:
    played = Played()
    played.runner.stop()
    assert not played.runner.may_run()
    played.loop.close()
