"""When the loop pauses so that Produce requests gather, and when it does not. Driven turn by turn; the sleep is simulated."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.event_loop import loop as loops
from headrace.broker.handlers.produce_run import RunOutcome
from headrace.broker.handlers.request_template import RequestTemplate
from headrace.broker.network.connection import Connection
from headrace.broker.network.input_gathering import FEW, GATHERS, STREAMED, STREAMED_BYTES
from headrace.broker.network.peer import Peer
from headrace.wire.messages import control
from tests.support.raw_kafka import batch, fetch_body, frame, produce_body
from tests.support.serving_broker import ServingBroker

ONE = frame(0, 9, 1, produce_body("clicks", batch(b"x")))
MANY = ONE * STREAMED
LARGE = frame(0, 9, 1, produce_body("clicks", batch(b"x" * (STREAMED_BYTES // FEW))))


class Turns:
    """A broker whose turns are driven by hand, and how often it has slept."""

    def __init__(self, broker: ServingBroker, sleeps: list[float]) -> None:
        self.broker = broker
        self.sleeps = sleeps
        self.peers: list[socket.socket] = []
        self.ms_a_turn = loops.QUIET_MS + 1

    def connect(self) -> socket.socket:
        ours, peer = socket.socketpair()
        ours.setblocking(False)
        self.peers.append(peer)
        Connection(ours, Peer("pair", "PLAINTEXT"), self.broker.server).start()
        return peer

    def turn(self) -> int:
        """Run one turn; return how often the loop slept in it."""
        before = len(self.sleeps)
        self.broker.loop.now_ms += self.ms_a_turn
        self.broker.loop._turn(self.broker.loop._poller.poll(0, 512))
        return len(self.sleeps) - before

    def send(self, peer: socket.socket, data: bytes) -> int:
        peer.sendall(data)
        return self.turn()


@pytest.fixture
def turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Turns]:
    sleeps: list[float] = []
    broker = ServingBroker(tmp_path, topics={"clicks": 1})
    monkeypatch.setattr(broker.loop, "_pause", sleeps.append)
    driven = Turns(broker, sleeps)
    # The first batch of a segment takes the general path.
    driven.send(driven.connect(), ONE)
    yield driven
    for peer in driven.peers:
        peer.close()
    broker.server.close()
    broker.loop.close()
    for partition in broker.table:
        partition.log.close()


def test_requests_of_a_producer_that_had_very_many_at_once_are_let_gather(turns: Turns) -> None:
    peer = turns.connect()
    assert turns.send(peer, MANY) == 0
    assert turns.send(peer, ONE) == 1
    assert turns.sleeps == [loops.GATHER_US / 1e6]


def test_many_bytes_of_more_than_a_few_requests_say_the_same(turns: Turns) -> None:
    peer = turns.connect()
    assert len(LARGE) * FEW < len(turns.broker.server.scratch)
    peer.setblocking(False)
    turns.send(peer, LARGE * FEW)
    assert turns.send(peer, LARGE) == 1


def test_a_producer_with_few_in_flight_is_never_kept_waiting(turns: Turns) -> None:
    peer = turns.connect()
    for requests in (1, 2, 5, 1, 64, 3, STREAMED - 1, 1):
        assert turns.send(peer, ONE * requests) == 0


def test_a_turn_without_input_does_not_sleep(turns: Turns) -> None:
    turns.send(turns.connect(), MANY)
    assert turns.turn() == 0


def test_requests_gather_a_bounded_number_of_times_until_many_come_at_once_again(turns: Turns) -> None:
    peer = turns.connect()
    turns.send(peer, MANY)
    assert [turns.send(peer, ONE) for _ in range(GATHERS + 2)] == [1] * GATHERS + [0, 0]
    turns.send(peer, MANY)
    assert turns.send(peer, ONE) == 1


def test_a_read_that_brings_only_a_part_of_a_request_lets_gather_as_well(turns: Turns) -> None:
    peer = turns.connect()
    turns.send(peer, MANY)
    assert turns.send(peer, ONE[:60]) == 1
    assert turns.send(peer, ONE[60:]) == 1


def test_the_loop_does_not_sleep_while_somebody_else_asks(turns: Turns) -> None:
    producer, other = turns.connect(), turns.connect()
    turns.send(producer, MANY)
    producer.sendall(ONE)
    assert turns.send(other, frame(3, 1, 7, control.encode_request(3, 1, {"topics": []}))) == 0


def test_who_else_has_asked_just_now_is_not_kept_waiting_when_it_asks_again(turns: Turns) -> None:
    producer, other = turns.connect(), turns.connect()
    turns.send(producer, MANY)
    turns.send(other, frame(3, 1, 7, control.encode_request(3, 1, {"topics": []})))
    turns.ms_a_turn = 1
    assert [turns.send(producer, ONE) for _ in range(loops.QUIET_MS + 1)] == [0] * loops.QUIET_MS + [1]


def test_the_loop_does_not_sleep_when_a_waiting_consumer_was_answered(turns: Turns) -> None:
    producer, consumer = turns.connect(), turns.connect()
    turns.send(producer, MANY)
    end = turns.broker.partition("clicks").log.log_end_offset
    turns.send(consumer, frame(1, 12, 7, fetch_body([("clicks", 0, end)], max_wait_ms=60_000)))
    consumer.setblocking(False)
    assert turns.send(producer, ONE) == 0
    assert len(consumer.recv(65_536)) > len(batch(b"x")), "the consumer has its answer"
    assert turns.send(producer, ONE) == 1


def test_two_producers_that_both_stream_are_let_gather_together(turns: Turns) -> None:
    first, second = turns.connect(), turns.connect()
    turns.send(first, MANY)
    turns.send(second, MANY)
    first.sendall(ONE)
    assert turns.send(second, ONE) == 1


def test_a_request_that_was_cut_makes_one_run_with_those_behind_it(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    router = turns.broker.server.dispatch
    take_run = router.take_run

    def taken(template: RequestTemplate | None, buffer: memoryview, start: int, end: int, peer: str) -> RunOutcome:
        found = take_run(template, buffer, start, end, peer)
        ends.append((found[1] - start) // len(ONE))
        return found

    monkeypatch.setattr(router, "take_run", taken)
    peer = turns.connect()
    turns.send(peer, ONE * 3 + ONE[:100])
    turns.send(peer, ONE[100:] + ONE * 4 + ONE[:1])
    turns.send(peer, ONE[1:])
    assert ends == [3, 5, 1]
    assert turns.broker.partition("clicks").messages_in == 1 + 9
