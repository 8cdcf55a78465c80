"""Questions to other brokers. Real sockets; the test is the other broker."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from headrace.broker.errors import PeerSilent
from headrace.broker.partitions.catalog import BrokerAddress
from headrace.broker.partitions.other_brokers import connect_in_the_clear
from headrace.broker.replicas.asking import Peers, question
from tests.unit.broker.hand_worker import HandWorker

KEY, LONG_MS = 20_099, 30_000


@contextmanager
def answering(answer: Callable[[socket.socket, bytes], None]) -> Iterator[BrokerAddress]:
    """Accept one connection, read one request and call `answer` with what follows its header."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(LONG_MS / 1000)
            (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            request = connection.recv(size, socket.MSG_WAITALL)
            assert struct.unpack_from(">hh", request) == (KEY, 0)
            answer(connection, request[10:])

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield BrokerAddress(broker_id=2, host="127.0.0.1", port=listening.getsockname()[1], endpoints={})
        finally:
            thread.join()


def framed(body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), 0) + body


def test_a_question_gets_the_body_of_its_answer() -> None:
    with answering(lambda line, body: line.sendall(framed(body[::-1]))) as there:
        worker, got = HandWorker(), list[object]()
        peers = Peers(worker, lambda: {2: there})
        peers.ask(2, KEY, b"abc", got.append, got.append)
        worker.run()
        assert got == [b"cba"]


def test_a_broker_that_is_not_registered_and_a_full_queue_are_answered_at_once() -> None:
    got: list[object] = []
    Peers(HandWorker(), dict).ask(7, KEY, b"", got.append, got.append)
    there = BrokerAddress(broker_id=2, host="127.0.0.1", port=1, endpoints={})
    Peers(HandWorker(capacity=0), lambda: {2: there}).ask(2, KEY, b"", got.append, got.append)
    assert [str(one).partition(": ")[2].partition(".")[0] for one in got] == [
        "it is not registered",
        "too many questions to other brokers wait already",
    ]


def test_an_answer_beyond_its_limit_is_not_read() -> None:
    with answering(lambda line, _: line.sendall(framed(b"x" * 11))) as there, pytest.raises(PeerSilent, match="11 bytes"):
        question(connect_in_the_clear, there, KEY, b"", deadline_ms=LONG_MS, most_bytes=10)


def test_a_broker_that_hangs_up_or_refuses_is_named() -> None:
    with answering(lambda line, _: line.sendall(framed(b"cut")[:-1])) as there:
        with pytest.raises(PeerSilent, match="broker 2 gives no answer: it closed the connection"):
            question(connect_in_the_clear, there, KEY, b"", deadline_ms=LONG_MS)
    with pytest.raises(PeerSilent, match="refused"):
        question(connect_in_the_clear, there, KEY, b"", deadline_ms=LONG_MS)


def test_a_broker_that_drips_its_answer_is_given_up_at_the_deadline() -> None:
    ended = threading.Event()

    def drip(line: socket.socket, _: bytes) -> None:
        line.sendall(struct.pack(">ii", 1_000_000, 0))
        with suppress(OSError):
            while not ended.wait(0.01):
                line.sendall(b"x")

    with answering(drip) as there:
        with pytest.raises(PeerSilent, match=r"in time|timed out"):
            question(connect_in_the_clear, there, KEY, b"", deadline_ms=200)
        ended.set()


def test_no_question_is_sent_after_its_deadline() -> None:
    there = BrokerAddress(broker_id=2, host="127.0.0.1", port=1, endpoints={})
    with pytest.raises(PeerSilent, match="in time"):
        question(connect_in_the_clear, there, KEY, b"", deadline_ms=0)
