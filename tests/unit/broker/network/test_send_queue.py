"""Responses leave a connection in order and complete, through partial writes, bytes and file regions mixed."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.network.send_queue import FileEnded, SendQueue


class OwnSlice:
    """A file region that is not the log's: the send queue must not care."""

    def __init__(self, path: Path, position: int, length: int) -> None:
        self._file = path.open("rb")
        self.fd = self._file.fileno()
        self.position = position
        self._length = length

    def __len__(self) -> int:
        return self._length


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, peers = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    yield ours, peers
    ours.close()
    peers.close()


def drained(send_queue: SendQueue, ours: socket.socket, peers: socket.socket) -> bytes:
    """Send everything while the peer reads; return the bytes that it received."""
    got = bytearray()
    for _ in range(100_000):
        if send_queue.send(ours):
            break
        got += peers.recv(1_000)
    peers.setblocking(False)
    while True:
        try:
            got += peers.recv(1 << 20)
        except BlockingIOError:
            return bytes(got)


def test_bytes_and_slices_leave_in_order_through_a_narrow_socket(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    content = os.urandom(300_000)
    (tmp_path / "log").write_bytes(content)
    send_queue = SendQueue()
    send_queue.put(
        [b"head", OwnSlice(tmp_path / "log", 1_000, 200_000), b"", b"between", OwnSlice(tmp_path / "log", 0, 5), b"tail"]
    )
    send_queue.put_bytes(b"x" * 100_000)
    expected = b"head" + content[1_000:201_000] + b"between" + content[:5] + b"tail" + b"x" * 100_000
    assert send_queue.waiting_bytes == len(expected)
    assert drained(send_queue, *pair) == expected
    assert send_queue.waiting_bytes == 0
    assert not send_queue


def test_a_slice_of_a_file_that_has_shrunk_ends_the_connection_instead_of_lying(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    (tmp_path / "log").write_bytes(b"short")
    send_queue = SendQueue()
    send_queue.put([OwnSlice(tmp_path / "log", 0, 100)])
    assert not send_queue.send(pair[0])
    with pytest.raises(FileEnded):
        send_queue.send(pair[0])


def test_one_connection_sends_no_more_than_its_share_a_turn(tmp_path: Path) -> None:
    ours, peers = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
    with ours, peers:
        (tmp_path / "log").write_bytes(bytes(8 << 20))
        send_queue = SendQueue()
        send_queue.put([OwnSlice(tmp_path / "log", 0, 8 << 20)])
        assert send_queue.send(ours) is False
        assert send_queue.waiting_bytes >= 5 << 20
