"""A network that can be cut: a proxy on the loopback in front of each listener, which loses the bytes of one direction, or both.

A connection that has lost bytes never passes that direction again; it ends when the network heals. A connection between brokers
names its broker in its first request, so that one pair of brokers can be cut.
"""

import socket
import struct
import threading
from contextlib import suppress
from typing import Literal

from headrace.broker.replicas.messages import POLL_KEY, TELL_KEY
from tests.support.processes import free_port

Direction = Literal["to", "from"]
"""To the server, or from it."""
_FIRST = struct.Struct(">ihhihi")
"""Size, key, version, correlation id and the null client id of a request, and the broker of a replica's message."""


class _Connection:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.source: int | None = None
        self.broken: set[Direction] = set()

    def end(self) -> None:
        for one in (self.client, self.server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Lane:
    """In front of the port of one server. It listens between `open` and `close`, as its server does."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._cuts: set[tuple[Direction, int | None]] = set()
        self._connections: set[_Connection] = set()
        self._listener: socket.socket | None = None
        self._lock = threading.Lock()

    def open(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections, as the port of a process that has ended does, and end those that there are."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self._end(list(self._connections))

    def cut(self, direction: Direction, source: int | None = None) -> None:
        """Lose all bytes of a direction from now on; with `source`, those of this broker's connections only."""
        self._cuts.add((direction, source))

    def heal(self) -> None:
        self._cuts.clear()
        with self._lock:
            broken = [one for one in self._connections if one.broken]
        self._end(broken)

    def _end(self, connections: list[_Connection]) -> None:
        for one in connections:
            one.end()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._target)) as server:
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(client, server)
            with self._lock:
                self._connections.add(connection)
            answers = threading.Thread(target=self._pass, args=(connection, server, client, "from"), daemon=True)
            answers.start()
            try:
                self._pass(connection, client, server, "to")
            finally:
                connection.end()
                answers.join(20)
                with self._lock:
                    self._connections.discard(connection)

    def _pass(self, connection: _Connection, source: socket.socket, sink: socket.socket, direction: Direction) -> None:
        is_first = direction == "to"
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if is_first:
                    is_first, connection.source = False, _broker_of(data)
                if (direction, None) in self._cuts or (direction, connection.source) in self._cuts:
                    connection.broken.add(direction)
                if direction not in connection.broken:
                    sink.sendall(data)
        connection.end()


def _broker_of(data: bytes) -> int | None:
    """Return the broker whose replicas speak; None for every other client."""
    if len(data) < _FIRST.size:
        return None
    _, key, _, _, _, broker_id = _FIRST.unpack_from(data)
    return int(broker_id) if key in (TELL_KEY, POLL_KEY) else None
