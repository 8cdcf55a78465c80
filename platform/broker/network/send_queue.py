"""Responses of one connection on their way out: bytes and file regions in order, sent as far as the socket takes them.

A run of small responses leaves in one send. A file region goes by sendfile(2); its header is held back (MSG_MORE) and leaves with
it. The owner bounds the queue by `waiting_bytes`."""

import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ..event_loop.deferred_response import Chunk, Chunks

SENDFILE_TURN_BYTES = 2 * 1024 * 1024
"""One connection sends at most so much before other connections get their turn."""
JOIN_BYTES = 64 * 1024


Sendfile = Callable[[int, int, int, int], int]
"""As `os.sendfile`: socket, file, position, count → how much was sent; 0 at the file's end."""


class Sends(Protocol):
    """A socket that does not block, or what looks like one (TLS)."""

    def fileno(self) -> int: ...

    def send(self, data: bytes | memoryview, flags: int = ..., /) -> int: ...


class FileEnded(Exception):
    """A file ended before its region did. The connection must close, since the response's length has been sent."""


class SendQueue:
    """The chunks that are still to be sent."""

    __slots__ = ("_chunks", "_head_sent", "_sendfile", "held_bytes", "waiting_bytes")

    def __init__(self, sendfile: Sendfile = os.sendfile) -> None:
        self._sendfile = sendfile
        self._chunks: deque[Chunk] = deque()
        self._head_sent = 0
        self.waiting_bytes = 0
        self.held_bytes = 0
        """The part of `waiting_bytes` that is in memory: all but file regions."""

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def put(self, chunks: Chunks) -> None:
        for chunk in chunks:
            if (length := len(chunk)) > 0:
                self._chunks.append(chunk)
                self.waiting_bytes += length
                if isinstance(chunk, bytes):
                    self.held_bytes += length

    def put_bytes(self, data: bytes) -> None:
        self._chunks.append(data)
        self.waiting_bytes += len(data)
        self.held_bytes += len(data)

    def send(self, to: Sends) -> bool:
        """Send what the socket takes, about `SENDFILE_TURN_BYTES` at most. Return whether everything is sent. Hot: once a turn.

        After a short send the socket is full, and this returns. Raises: OSError when the peer is gone; FileEnded.
        """
        chunks = self._chunks
        left = SENDFILE_TURN_BYTES
        try:
            while chunks and left > 0:
                head = chunks[0]
                if isinstance(head, bytes):
                    if (sent := self._send_bytes(to)) < 0:
                        return False
                    left -= sent
                    continue
                at = self._head_sent
                rest = len(head) - at
                wanted = rest if rest < left else left
                sent = self._sendfile(to.fileno(), head.fd, head.position + at, wanted)
                if sent == 0:
                    raise FileEnded(f"file slice at {head.position} of {len(head)} bytes ended after {at}")
                self.waiting_bytes -= sent
                if sent == rest:
                    chunks.popleft()
                    self._head_sent = 0
                else:
                    self._head_sent = at + sent
                    if sent < wanted:
                        return False
                left -= sent
        except BlockingIOError:
            return False
        return not chunks

    def drop(self) -> None:
        self._chunks.clear()
        self.waiting_bytes = self.held_bytes = 0

    def _send_bytes(self, to: Sends) -> int:
        """Send the bytes before the first file region, or some of them. Return how many, or -1 when the socket is full."""
        chunks = self._chunks
        count = len(chunks)
        if not self._head_sent and (count == 1 or not isinstance(chunks[1], bytes)):
            data: bytes | memoryview = chunks[0]  # type: ignore[assignment]  # `send` has checked
            joined = 1
        else:
            run: list[bytes | memoryview] = []
            length = joined = 0
            for chunk in chunks:
                if not isinstance(chunk, bytes) or length >= JOIN_BYTES:
                    break
                run.append(chunk)
                length += len(chunk)
                joined += 1
            run[0] = memoryview(run[0])[self._head_sent :]
            data = run[0] if joined == 1 else b"".join(run)
        sent = to.send(data, socket.MSG_MORE if joined < count else 0)
        self.waiting_bytes -= sent
        self.held_bytes -= sent
        if sent == len(data):
            self._head_sent = 0
            for _ in range(joined):
                chunks.popleft()
            return sent
        sent_of_head = sent + self._head_sent
        while sent_of_head >= len(chunks[0]):
            sent_of_head -= len(chunks.popleft())
        self._head_sent = sent_of_head
        return -1
