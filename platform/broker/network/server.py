"""The listening socket and the connections that it has accepted, within their limits.

The server refuses connections beyond the limit. It closes a connection that is idle too long, and one whose request takes too
long to arrive. When unfinished requests together hold too much memory, it closes the connection with the oldest; when unread
responses do, the one with the most. Lives on the loop thread. Knows no API."""

import errno
import os
import socket
from collections.abc import Callable
from select import EPOLLIN
from typing import Generic

from ...runtime.logs import get_logger
from ...runtime.monitoring.listening import AddressInUse
from ...runtime.rate_limited_log import RateLimitedLog
from ..event_loop.loop import Loop
from ..settings.broker_settings import BrokerSettings
from .connection import Connection
from .frame_runner import Dispatch, Template
from .receive_buffer import SCRATCH_BYTES, BufferPool, ReceiveBuffer

log = get_logger(__name__)

SWEEP_EVERY_MS = 1_000
ACCEPTS_A_TURN = 64
FINISH_MS, FINISH_LOOK_MS = 2_000, 5
"""How long a stop waits for pending responses, and how often it looks."""
CONNECTION_BYTES = 4 << 10
"""Memory of a connection without its buffers, roughly."""
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class Server(Generic[Template]):
    """Serves `dispatch` on one address."""

    def __init__(self, loop: Loop, dispatch: Dispatch[Template], settings: BrokerSettings) -> None:
        self.loop = loop
        self.dispatch = dispatch
        self.output_max_bytes = settings.output_max_bytes
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.rejections = RateLimitedLog(log, lambda: loop.now_ms)
        self._settings = settings
        self._pool = BufferPool()
        self._connections: dict[int, Connection[Template]] = {}
        self._held: dict[Connection[Template], int] = {}
        self.held_bytes = 0
        """Memory of responses that wait for full sockets, without file regions."""
        self.accepted_count = 0
        """Connections accepted so far; for metrics."""
        self._most_connections = 0
        self._most_held_bytes = 0
        self._listener: socket.socket | None = None
        self._reserve_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        """Closed for a moment when no descriptor is left, to accept a connection and close it. Else the loop would spin."""

    @property
    def port(self) -> int:
        """The port listened on; known after `listen`."""
        assert self._listener is not None, "not listening"
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def input_bytes(self) -> int:
        """Memory held by requests that are still arriving."""
        return self._pool.lent_bytes

    def take_peak(self) -> int:
        """Return the most memory that connections, requests and responses took since the last call, roughly."""
        peak_bytes = self._most_connections * CONNECTION_BYTES + self._pool.peak_bytes + self._most_held_bytes
        self._most_connections, self._most_held_bytes = len(self._connections), self.held_bytes
        self._pool.peak_bytes = self._pool.lent_bytes
        return peak_bytes

    def give_back(self) -> None:
        """Free the buffers that are kept for the next request."""
        self._pool.free_unused()

    @property
    def output_bytes(self) -> int:
        """Bytes of responses that peers have not read yet, with file regions."""
        return sum(connection.unsent_bytes for connection in self._connections.values())

    def listen(self) -> None:
        """Begin to accept connections. Raises: AddressInUse."""
        host, port = self._settings.host, self._settings.port
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(1024)
        except OSError as error:
            raise AddressInUse.from_os_error(
                "cannot listen", (host, port), error, host_setting="--host", port_setting="--port"
            ) from error
        self._listener = listener
        self.loop.register(listener.fileno(), EPOLLIN, self._accept)
        self.loop.call_at(self.loop.now_ms + SWEEP_EVERY_MS, self._sweep)

    def stop_listening(self) -> None:
        """Accept no more connections. Open ones stay."""
        if self._listener is not None:
            self.loop.unregister(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def finish(self, done: Callable[[], None], within_ms: int = FINISH_MS) -> None:
        """Accept and read no more. Call `done` when all pending responses are sent, or after `within_ms`."""
        self.stop_listening()
        deadline_ms = self.loop.now_ms + within_ms

        def look() -> None:
            still = [connection for connection in list(self._connections.values()) if not connection.finish()]
            if not still or self.loop.now_ms >= deadline_ms:
                done()
            else:
                self.loop.call_at(self.loop.now_ms + FINISH_LOOK_MS, look)

        look()

    def close(self) -> None:
        """Close everything. Call it on the loop thread, or after the loop has ended."""
        self.stop_listening()
        for connection in list(self._connections.values()):
            connection.close()
        os.close(self._reserve_fd)

    def new_receive_buffer(self) -> ReceiveBuffer:
        return ReceiveBuffer(self._pool)

    def closed(self, connection: Connection[Template]) -> None:
        self._connections.pop(connection.fd, None)
        self.held_bytes -= self._held.pop(connection, 0)

    def output_held(self, connection: Connection[Template], held_bytes: int) -> None:
        self.held_bytes += held_bytes - self._held.pop(connection, 0)
        if held_bytes:
            self._held[connection] = held_bytes
        self._most_held_bytes = max(self._most_held_bytes, self.held_bytes)
        while self.held_bytes > self._settings.unread_answers_max_bytes:
            most = max(self._held, key=self._held.__getitem__)
            why = f"of {self.held_bytes} bytes of unread answers in memory {self._held[most]} are for this connection"
            most.refuse("unread_answers_too_large", why)

    def input_grew(self, connection: Connection[Template]) -> None:
        if self._pool.lent_bytes <= self._settings.unfinished_requests_max_bytes:
            return
        unfinished = [one for one in self._connections.values() if one.unfinished_since_ms is not None]
        victim = min(unfinished, key=lambda one: one.unfinished_since_ms or 0)
        victim.refuse("unfinished_requests_too_large", f"{self._pool.lent_bytes} bytes of requests have not fully arrived")

    def _accept(self, mask: int) -> None:
        assert self._listener is not None
        for _ in range(ACCEPTS_A_TURN):
            try:
                accepted, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS:
                    self._refuse_for_want_of_descriptors()
                else:
                    self.rejections.warning("accept_failed", error=str(error))
                return
            peer = f"{address[0]}:{address[1]}"
            if len(self._connections) >= self._settings.max_connections:
                accepted.close()
                self.rejections.warning("too_many_connections", peer=peer, limit=self._settings.max_connections)
                continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(accepted, peer, self)
            self._connections[connection.fd] = connection
            self.accepted_count += 1
            self._most_connections = max(self._most_connections, len(self._connections))
            connection.start()

    def _refuse_for_want_of_descriptors(self) -> None:
        assert self._listener is not None
        os.close(self._reserve_fd)
        try:
            self._listener.accept()[0].close()
        except OSError:
            pass
        self._reserve_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.rejections.warning("no_descriptors_left", connections=len(self._connections))

    def _sweep(self) -> None:
        now_ms = self.loop.now_ms
        self.loop.call_at(now_ms + SWEEP_EVERY_MS, self._sweep)
        settings = self._settings
        for connection in list(self._connections.values()):
            if connection.is_waiting:
                # A peer that does not read its response counts as idle too, unless its fetch is parked.
                if now_ms - connection.last_active_ms > settings.connections_max_idle_ms + settings.fetch_max_wait_ms:
                    connection.close()
                continue
            since_ms = connection.unfinished_since_ms
            if since_ms is not None and now_ms - since_ms > settings.request_read_timeout_ms:
                connection.refuse("request_too_slow", f"{connection.unfinished_bytes} bytes in {now_ms - since_ms} ms")
            elif now_ms - connection.last_active_ms > settings.connections_max_idle_ms:
                connection.close()
