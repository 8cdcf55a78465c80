"""Answers on their way out of one connection: bytes and file slices in order, sent as far as the socket takes them.

A run of small answers leaves in one send; a slice goes by sendfile(2), its header held back (MSG_MORE) to travel with it.
Holds no more than its owner lets in: `waiting_bytes` is what the owner watches."""

import os
import socket
from collections import deque

from .later import Chunk, Chunks

SENDFILE_TURN_BYTES = 2 * 1024 * 1024
"""The most that one connection sends before others get their turn."""
JOIN_BYTES = 64 * 1024


class FileEnded(Exception):
    """A slice promised more bytes than its file has: the connection cannot go on, as the answer's length has been sent."""


class Outbox:
    """What is still to be sent."""

    __slots__ = ("_chunks", "_head_sent", "waiting_bytes")

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._head_sent = 0
        self.waiting_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def put(self, chunks: Chunks) -> None:
        for chunk in chunks:
            if (length := len(chunk)) > 0:
                self._chunks.append(chunk)
                self.waiting_bytes += length

    def put_bytes(self, data: bytes) -> None:
        self._chunks.append(data)
        self.waiting_bytes += len(data)

    def send(self, to: socket.socket) -> bool:
        """Send what the socket takes now, at most a turn's share; return whether everything is gone.

        Raises: OSError when the peer is gone; FileEnded.
        """
        left = SENDFILE_TURN_BYTES
        try:
            while self._chunks and left > 0:
                left -= self._send_some(to, left)
        except BlockingIOError:
            return False
        return not self._chunks

    def drop(self) -> None:
        self._chunks.clear()
        self.waiting_bytes = 0

    def _send_some(self, to: socket.socket, at_most: int) -> int:
        head = self._chunks[0]
        if isinstance(head, bytes):
            sent = self._send_bytes(to)
        else:
            sent = os.sendfile(to.fileno(), head.fd, head.position + self._head_sent, min(len(head) - self._head_sent, at_most))
            if sent == 0:
                raise FileEnded(f"file slice at {head.position} of {len(head)} bytes ended after {self._head_sent}")
            self._advance(sent)
        return sent

    def _send_bytes(self, to: socket.socket) -> int:
        run: list[bytes | memoryview] = []
        length = 0
        for chunk in self._chunks:
            if not isinstance(chunk, bytes) or length >= JOIN_BYTES:
                break
            run.append(chunk)
            length += len(chunk)
        if self._head_sent:
            run[0] = memoryview(run[0])[self._head_sent :]
        more = socket.MSG_MORE if len(run) < len(self._chunks) else 0
        sent = to.send(run[0] if len(run) == 1 else b"".join(run), more)
        self._advance(sent)
        return sent

    def _advance(self, sent: int) -> None:
        self.waiting_bytes -= sent
        sent += self._head_sent
        while self._chunks and sent >= len(self._chunks[0]):
            sent -= len(self._chunks.popleft())
        self._head_sent = sent
