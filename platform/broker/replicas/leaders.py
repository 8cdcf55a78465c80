"""The follower's side of the messages: one link to each broker that leads a partition followed here.

A link has two connections to the listener for brokers: what is told goes over one, polls over the other. A thread connects; all
else runs on the loop thread. What waits to be told is one fetch a partition, the newest.
"""

import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from select import EPOLLIN, EPOLLOUT
from typing import Protocol

from ...runtime.logs import get_logger
from ...wire.errors import WireError
from ..event_loop.loop import Loop
from ..event_loop.worker import Worker
from ..partitions.catalog import BrokerAddress
from ..partitions.other_brokers import Connect
from ..replication.facts import ReplicaFetch
from . import messages
from .messages import MOST_FETCHES, POLL_KEY, TELL_KEY, VERSION, Answer, Key, Refusal, Sender

log = get_logger(__name__)

CONNECT_S = 1.0
SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS = 50, 1_000
"""Between two tries to connect."""
SILENCE_MS = 2_000
"""A leader that answers no poll for so long does not answer: polls are answered several times a second."""
LARGEST_ANSWER_BYTES = 128 << 20
MOST_UNSENT_BYTES = 16 << 20
READ_BYTES = 256 << 10

_HEADER = struct.Struct(">ihhih")
_FIRST = struct.Struct(">ii")


class Receiver(Protocol):
    """Takes what leaders answer."""

    def answered(self, message: Answer | Refusal) -> None: ...

    def connected(self, broker_id: int) -> None: ...

    def lost(self, broker_id: int, *, is_refused: bool) -> None: ...


class _Standing(Enum):
    DOWN, CONNECTING, UP = range(3)


class _Line:
    """One connection, which does not block. `failed` is called once, when it is of no more use."""

    def __init__(self, loop: Loop, connected: socket.socket, take: Callable[[memoryview], None], failed: Callable[[str], None]):
        self._loop, self._socket, self._take, self._failed = loop, connected, take, failed
        self._in = bytearray()
        self._out = bytearray()
        self._mask = EPOLLIN
        self._is_closed = False
        self._fd = connected.fileno()
        loop.register(self._fd, self._mask, self._on_event)

    def send(self, data: bytes) -> None:
        if len(self._out) + len(data) > MOST_UNSENT_BYTES:
            self._fail("it reads too slowly")
            return
        self._out += data
        self._send()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.unregister(self._fd)
            self._socket.close()

    def _fail(self, why: str) -> None:
        if not self._is_closed:
            self.close()
            self._failed(why)

    def _on_event(self, mask: int) -> None:
        if self._is_closed:
            return
        if self._out:
            self._send()
        if not self._is_closed and mask & ~EPOLLOUT:
            self._read()

    def _send(self) -> None:
        try:
            while self._out:
                sent = self._socket.send(memoryview(self._out)[: 1 << 20])
                del self._out[:sent]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            self._fail(str(error))
            return
        self._watch(EPOLLIN | EPOLLOUT if self._out else EPOLLIN)

    def _watch(self, mask: int) -> None:
        if mask != self._mask and not self._is_closed:
            self._mask = mask
            self._loop.modify(self._fd, mask)

    def _read(self) -> None:
        try:
            while True:
                data = self._socket.recv(READ_BYTES)
                if not data:
                    self._fail("it closed the connection")
                    return
                self._in += data
                if len(data) < READ_BYTES and not isinstance(self._socket, ssl.SSLSocket):
                    break
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            self._fail(str(error))
            return
        self._frames()

    def _frames(self) -> None:
        while len(self._in) >= 4 and not self._is_closed:
            size = int.from_bytes(self._in[:4], "big", signed=True)
            if not 4 <= size <= LARGEST_ANSWER_BYTES:
                self._fail(f"it announces a response of {size} bytes")
                return
            if len(self._in) < 4 + size:
                return
            frame = bytes(memoryview(self._in)[8 : 4 + size])  # without size and correlation id; replicas keep parts of it
            del self._in[: 4 + size]
            try:
                self._take(memoryview(frame))
            except WireError as error:
                self._fail(str(error))


class Link:
    """To one broker."""

    def __init__(
        self,
        loop: Loop,
        worker: Worker,
        connect: Connect,
        receiver: Receiver,
        broker_id: int,
        own: tuple[int, int],
        numbers: Iterator[int],
    ) -> None:
        """`own`: this broker's id and start number. `numbers`: of connections, ascending for all links of this process: a leader
        takes a lower number than it has seen for an earlier connection, and listens to it no more.
        """
        self.broker_id = broker_id
        self.heard_ms = loop.now_ms
        self.is_refused = False
        """Whether the last try to connect was refused: nothing listens there."""
        self._loop, self._worker, self._connect, self._receiver = loop, worker, connect, receiver
        self._own, self._numbers = own, numbers
        self._standing = _Standing.DOWN
        self._connection = 0
        self._lines: tuple[_Line, _Line] | None = None
        self._due: dict[Key, ReplicaFetch] = {}
        self._is_arranged = False
        self._next_try_ms = 0
        self._pause_ms = SHORTEST_PAUSE_MS
        self._is_closed = False

    @property
    def answers(self) -> bool:
        """Return whether the broker answers this follower."""
        return self._standing is _Standing.UP and self._loop.now_ms - self.heard_ms < SILENCE_MS

    def tell(self, key: Key, fetch: ReplicaFetch) -> None:
        if self._standing is _Standing.UP:
            self._due[key] = fetch
            if not self._is_arranged:
                self._is_arranged = True
                self._loop.at_turn_end(self._tell_all)

    def forget(self, key: Key) -> None:
        self._due.pop(key, None)

    def try_to_connect(self, address: BrokerAddress | None) -> None:
        """Connect, when that is due and not under way."""
        if self._standing is not _Standing.DOWN or self._is_closed or address is None or self._loop.now_ms < self._next_try_ms:
            return

        def connect() -> tuple[socket.socket, socket.socket]:
            first = self._connect(address, CONNECT_S)
            try:
                second = self._connect(address, CONNECT_S)
            except BaseException:
                first.close()
                raise
            for one in (first, second):
                one.setblocking(False)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return first, second

        if self._worker.submit(connect, self._up, self._not_up):
            self._standing = _Standing.CONNECTING

    def close(self) -> None:
        self._is_closed = True
        self._drop()

    def _up(self, sockets: tuple[socket.socket, socket.socket]) -> None:
        if self._is_closed:
            for one in sockets:
                one.close()
            return
        self._connection = next(self._numbers)
        self._standing, self.is_refused, self._pause_ms = _Standing.UP, False, SHORTEST_PAUSE_MS
        self.heard_ms = self._loop.now_ms
        failed = partial(self._failed, self._connection)
        self._lines = (
            _Line(self._loop, sockets[0], lambda _: None, failed),
            _Line(self._loop, sockets[1], self._polled, failed),
        )
        self._poll()
        self._receiver.connected(self.broker_id)

    def _not_up(self, error: Exception) -> None:
        self._standing = _Standing.DOWN
        self.is_refused = isinstance(error, ConnectionRefusedError)
        self._next_try_ms = self._loop.now_ms + self._pause_ms
        self._pause_ms = min(LONGEST_PAUSE_MS, 2 * self._pause_ms)
        if not self._is_closed:
            self._receiver.lost(self.broker_id, is_refused=self.is_refused)

    def _failed(self, connection: int, why: str) -> None:
        if connection == self._connection and self._standing is _Standing.UP:
            log.info("replica_connection_lost", broker_id=self.broker_id, why=why)
            self._drop()
            self._next_try_ms = 0
            self._receiver.lost(self.broker_id, is_refused=False)

    def _drop(self) -> None:
        lines, self._lines = self._lines, None
        self._due.clear()
        if self._standing is _Standing.UP:
            self._standing = _Standing.DOWN
        for line in lines or ():
            line.close()

    @property
    def _sender(self) -> Sender:
        return Sender(*self._own, self._connection)

    def _tell_all(self) -> None:
        self._is_arranged = False
        due, self._due = list(self._due.items()), {}
        for at in range(0, len(due), MOST_FETCHES):
            if self._lines is not None:
                self._lines[0].send(_frame(TELL_KEY, messages.encode_tell(self._sender, due[at : at + MOST_FETCHES])))

    def _poll(self) -> None:
        if self._lines is not None:
            self._lines[1].send(_frame(POLL_KEY, messages.encode_poll(self._sender)))

    def _polled(self, body: memoryview) -> None:
        self.heard_ms = self._loop.now_ms
        self._poll()
        for message in messages.decode_response(body):
            self._receiver.answered(message)


def _frame(key: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size - 4 + len(body), key, VERSION, 0, -1) + body
