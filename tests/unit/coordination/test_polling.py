"""The wait for kazoo's socket, on real sockets."""

import os
import resource
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.coordination.polling import PollingHandler
from tests.support.certificates import Authority


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    yield one, other
    one.close()
    other.close()


def test_what_can_be_read_and_written_is_found_and_nothing_else(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    waits = PollingHandler()
    assert waits.select([one], [], [], 0) == ([], [], [])
    assert waits.select([one], [one], [], 0) == ([], [one], [])
    other.send(b"x")
    assert waits.select([one, other], [], [], 1.5) == ([one], [], [])
    assert waits.select([one], [one, other], [], 0) == ([one], [one, other], [])
    assert waits.select([one], [], []) == ([one], [], [])


def test_a_peer_that_is_gone_makes_its_socket_readable(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    other.close()
    assert PollingHandler().select([one], [], [], 1)[0] == [one]


def test_a_wait_ends_at_its_time_and_not_before(pair: tuple[socket.socket, socket.socket]) -> None:
    assert PollingHandler().select([pair[0]], [], [], 0.0004) == ([], [], [])


def test_a_socket_that_was_closed_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    fd = os.dup(one.fileno())
    os.close(fd)
    with pytest.raises(ValueError, match="closed"):
        PollingHandler().select([fd], [], [], 1)
    one.close()
    with pytest.raises(TypeError):
        PollingHandler().select([one], [], [], 1)
    with pytest.raises(TypeError):
        PollingHandler().select([other], [one], [], 1)


def test_descriptors_beyond_those_of_select_are_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft <= 1_100:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1_200), hard))
    one, other = pair
    high = os.dup2(one.fileno(), 1_100)
    try:
        with pytest.raises(ValueError, match="filedescriptor out of range"):
            select.select([high], [], [], 0)
        other.send(b"x")
        assert PollingHandler().select([high], [], [], 1) == ([high], [], [])
    finally:
        os.close(high)


def test_a_wait_makes_no_descriptor(pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a descriptor for each wait")

    monkeypatch.setattr(select, "epoll", refused)
    assert PollingHandler().select([], [pair[0]], [], 1) == ([], [pair[0]], [])


def test_what_tls_has_decrypted_already_can_be_read(tmp_path: Path) -> None:
    """Two responses in one TLS record: when the first is read, the descriptor has nothing more, and the second is in OpenSSL."""
    authority = Authority(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.issue("server", hosts=("127.0.0.1",)))
    client = ssl.create_default_context(cafile=str(authority.file))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with server.wrap_socket(listening.accept()[0], server_side=True) as connection:
                connection.sendall(b"ab")
                connection.recv(1)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        waits = PollingHandler()
        waits.use_tls(lambda: client)
        address, timeout_s = listening.getsockname(), 30
        with waits.create_connection(address=address, hostname="127.0.0.1", timeout=timeout_s) as connection:
            assert waits.select([connection], [], [], 30)[0] == [connection]
            assert connection.recv(1) == b"a"
            assert waits.select([connection], [], [], 0)[0] == [connection]
            assert connection.recv(1) == b"b"
            connection.sendall(b"x")
        serving.join(30)
