"""The proxies that cut the network: what passes, what is lost in one direction, and for one broker only."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from headrace.broker.replicas.messages import POLL_KEY
from tests.support.processes import accepts

from .lanes import Lane


class Echo:
    """Answers what it gets, and keeps it."""

    def __init__(self) -> None:
        self.got = bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            while data := client.recv(1_000):
                self.got += data
                client.sendall(data)


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def lane(echo: Echo) -> Iterator[Lane]:
    made = Lane(echo.port)
    made.open()
    yield made
    made.close()


def connected(lane: Lane) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", lane.port))
    made.settimeout(20)
    return made


def said(client: socket.socket, words: bytes) -> bytes:
    client.sendall(words)
    return client.recv(1_000)


def poll_of(broker_id: int) -> bytes:
    return struct.pack(">ihhihi", 14, POLL_KEY, 0, 0, -1, broker_id)


def is_silent(client: socket.socket) -> bool:
    client.settimeout(0.2)
    try:
        client.recv(1_000)
    except TimeoutError:
        return True
    finally:
        client.settimeout(20)
    return False


def test_what_goes_to_the_server_is_lost_and_the_connection_ends_when_the_network_heals(lane: Lane, echo: Echo) -> None:
    with connected(lane) as client, connected(lane) as idle:
        assert said(client, b"one") == b"one"
        assert said(idle, b"idle") == b"idle"
        lane.cut("to")
        client.sendall(b"two")
        assert is_silent(client)
        assert bytes(echo.got) == b"oneidle"
        lane.heal()
        assert client.recv(1_000) == b"", "it has lost bytes"
        assert said(idle, b"three") == b"three", "it has lost none"


def test_what_comes_from_the_server_is_lost(lane: Lane, echo: Echo) -> None:
    with connected(lane) as client:
        assert said(client, b"one") == b"one"
        lane.cut("from")
        client.sendall(b"two")
        assert is_silent(client)
        assert bytes(echo.got) == b"onetwo"


def test_one_pair_of_brokers_is_cut(lane: Lane) -> None:
    with connected(lane) as second, connected(lane) as third:
        lane.cut("to", 2)
        assert said(third, poll_of(3)) == poll_of(3)
        second.sendall(poll_of(2))
        assert is_silent(second)


def test_the_port_of_a_server_that_has_ended_refuses(lane: Lane) -> None:
    client = connected(lane)
    assert said(client, b"one") == b"one"
    lane.close()
    assert client.recv(1_000) == b""
    client.close()
    assert not accepts(lane.port)
    lane.open()
    with connected(lane) as again:
        assert said(again, b"two") == b"two"
