"""The listening sockets and the connections that they have accepted, within their limits.

The server refuses connections beyond the limit. It closes a connection that is idle too long, and one whose request takes too
long to arrive. When unfinished requests together hold too much memory, it closes the connection with the oldest; when unread
responses do, the one with the most. Lives on the loop thread. Knows no API."""

import errno
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from select import EPOLLIN
from typing import Generic

from ...runtime.logs import get_logger
from ...runtime.monitoring.listening import AddressInUse
from ...runtime.rate_limited_log import RateLimitedLog
from ..event_loop.loop import Loop
from ..settings.broker_settings import BrokerSettings
from ..settings.listeners import Listener
from .connection import Connection
from .frame_runner import Dispatch, Template
from .handshakes import Handshakes
from .peer import Guard, Peer
from .principal import Principal
from .receive_buffer import SCRATCH_BYTES, BufferPool, ReceiveBuffer
from .send_queue import Sendfile
from .tls_connection import TlsConnection
from .tls_context import ServerTls
from .tls_stream import TlsStream

log = get_logger(__name__)

SWEEP_EVERY_MS = 1_000
ACCEPTS_A_TURN = 64
FINISH_MS, FINISH_LOOK_MS = 2_000, 5
"""How long a stop waits for pending responses, and how often it looks."""
CONNECTION_BYTES = 4 << 10
"""Memory of a connection without its buffers, roughly."""
TLS_CONNECTION_BYTES = 50 << 10
"""The same with TLS, also while its handshake has not ended."""
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


NewGuard = Callable[[Peer], Guard]
Bind = Callable[[Listener], socket.socket]
"""Returns a listening socket that does not block. Raises: AddressInUse."""


class Server(Generic[Template]):
    """Serves `dispatch` on all listeners."""

    def __init__(
        self,
        loop: Loop,
        dispatch: Dispatch[Template],
        settings: BrokerSettings,
        *,
        guard: NewGuard | None = None,
        bind: Bind | None = None,
        sendfile: Sendfile = os.sendfile,
    ) -> None:
        """`guard` makes one for a connection to a listener with a login; `bind` a listening socket, else the system does.
        Raises: TlsRefused.
        """
        self._bind, self._sendfile = bind or bound_to, sendfile
        self._guard = guard
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
        self._listening: dict[str, socket.socket] = {}
        """By the listener's name."""
        self._handshakes = (
            None
            if not settings.tls
            else Handshakes(
                {name: ServerTls(tls) for name, tls in settings.tls.items()},
                memoryview(bytearray(SCRATCH_BYTES)),
                within_ms=settings.request_read_timeout_ms,
            )
        )
        self._handshake_count = 0
        """Handshakes under way."""
        self._reserve_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        """Closed for a moment when no descriptor is left, to accept a connection and close it. Else the loop would spin."""

    @property
    def ports(self) -> Mapping[str, int]:
        """The port of each listener by its name; known after `listen`."""
        return {name: one.getsockname()[1] for name, one in self._listening.items()}

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def input_bytes(self) -> int:
        """Memory held by requests that are still arriving."""
        return self._pool.lent_bytes

    @property
    def _connection_count(self) -> int:
        return len(self._connections) + self._handshake_count

    def take_peak(self) -> int:
        """Return the most memory that connections, requests and responses took since the last call, roughly."""
        each_bytes = CONNECTION_BYTES if self._handshakes is None else TLS_CONNECTION_BYTES
        peak_bytes = self._most_connections * each_bytes + self._pool.peak_bytes + self._most_held_bytes
        self._most_connections, self._most_held_bytes = self._connection_count, self.held_bytes
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
        for listener in self._settings.listeners:
            bound = self._listening[listener.name] = self._bind(listener)
            self.loop.register(bound.fileno(), EPOLLIN, partial(self._accept, bound, listener))
        if self._handshakes is not None:
            self._handshakes.start()
        self.loop.call_at(self.loop.now_ms + SWEEP_EVERY_MS, self._sweep)

    def stop_listening(self) -> None:
        """Accept no more connections. Open ones stay."""
        while self._listening:
            _, bound = self._listening.popitem()
            self.loop.unregister(bound.fileno())
            bound.close()

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
        if self._handshakes is not None:
            self._handshakes.stop()
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

    def _accept(self, bound: socket.socket, listener: Listener, mask: int) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                accepted, address = bound.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS:
                    self._refuse_for_want_of_descriptors(bound)
                else:
                    self.rejections.warning("accept_failed", error=str(error))
                return
            peer = Peer(f"{address[0]}:{address[1]}", listener.name)
            if listener.has_login:
                assert self._guard is not None, "a listener with a login has a guard"
                peer.guard = self._guard(peer)
            if self._connection_count >= self._settings.max_connections:
                accepted.close()
                self.rejections.warning("too_many_connections", peer=peer.address, limit=self._settings.max_connections)
                continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted_count += 1
            if listener.has_tls:
                self._begin_handshake(accepted, peer)
            else:
                self._add(Connection(accepted, peer, self, sendfile=self._sendfile))

    def _add(self, connection: Connection[Template]) -> None:
        self._connections[connection.fd] = connection
        self._most_connections = max(self._most_connections, self._connection_count)
        connection.start()

    def _begin_handshake(self, accepted: socket.socket, peer: Peer) -> None:
        assert self._handshakes is not None, "a listener with TLS has settings for it"
        self._handshake_count += 1
        self._most_connections = max(self._most_connections, self._connection_count)

        def connected(stream: TlsStream, principal: Principal) -> None:
            self._handshake_count -= 1
            peer.principal = principal
            if self._listening:
                self._add(TlsConnection(stream, peer, self))
            else:
                stream.close()

        def refused(why: str) -> None:
            self._handshake_count -= 1
            self.rejections.warning("tls_handshake_failed", peer=peer.address, listener=peer.listener, why=why)

        self._handshakes.begin(
            accepted,
            peer,
            lambda stream, principal: self.loop.post(lambda: connected(stream, principal)),
            lambda why: self.loop.post(lambda: refused(why)),
        )

    def _refuse_for_want_of_descriptors(self, bound: socket.socket) -> None:
        os.close(self._reserve_fd)
        try:
            bound.accept()[0].close()
        except OSError:
            pass
        self._reserve_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.rejections.warning("no_descriptors_left", connections=len(self._connections))

    def _sweep(self) -> None:
        now_ms = self.loop.now_ms
        self.loop.call_at(now_ms + SWEEP_EVERY_MS, self._sweep)
        settings = self._settings
        for connection in list(self._connections.values()):
            guard = connection.peer.guard
            if guard is not None and guard.deadline_ms is not None and now_ms > guard.deadline_ms:
                connection.refuse("login_not_done", "the client did not log in in time, or stays after a failed login")
                continue
            if connection.is_waiting or connection.is_muted:
                # A peer that does not read its response counts as idle too, unless its fetch is parked.
                if now_ms - connection.last_active_ms > settings.connections_max_idle_ms + settings.fetch_max_wait_ms:
                    connection.close()
                continue
            since_ms = connection.unfinished_since_ms
            if since_ms is not None and now_ms - since_ms > settings.request_read_timeout_ms:
                connection.refuse("request_too_slow", f"{connection.unfinished_bytes} bytes in {now_ms - since_ms} ms")
            elif now_ms - connection.last_active_ms > settings.connections_max_idle_ms:
                connection.close()


def bound_to(listener: Listener) -> socket.socket:
    """Return the listening socket. Raises: AddressInUse."""
    host, port = listener.host, listener.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(1024)
    except OSError as error:
        raise AddressInUse.from_os_error(
            f"listener {listener.name} cannot listen", (host, port), error, host_setting="--host", port_setting="--port"
        ) from error
    return bound
