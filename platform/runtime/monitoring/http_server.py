"""A very small HTTP server for metrics and health: a few pages, GET and HEAD, one thread.

Bounds: `CONNECTIONS`, `REQUEST_BYTES`, `DEADLINE_MS` a connection. When all connections are taken, the oldest is closed for a new
one, so that idle peers never block a health check. Each response ends its connection. Knows no page's content. The standard
library's server was not used: it imports a mail parser and starts a thread for each peer. Source: RFC 9112, the part that this
needs."""

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ..clock import SystemClock
from ..http_access import CHALLENGE, UNAUTHORIZED, BearerToken, is_open
from ..logs import get_logger
from ..rate_limited_log import RateLimitedLog
from ..serving.request_rules import NO_PAGE, POLICY, SAFETY, allowed_hosts, why_refused
from .listening import AddressInUse

log = get_logger(__name__)

CONNECTIONS = 32
REQUEST_BYTES = 8 * 1024
DEADLINE_MS = 5_000
LOOK_EVERY_MS = 500
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 431: "Header Fields Too Large"}
_REASONS |= {403: "Forbidden", 415: "Unsupported Media Type", 421: "Misdirected Request"}
_REASONS |= {401: "Unauthorized", 500: "Internal Server Error", 503: "Service Unavailable"}
_SAFETY = "".join(f"{name}: {value}\r\n" for name, value in (*SAFETY, (POLICY, NO_PAGE)))


class Page(NamedTuple):
    """A page's response."""

    status: int
    content_type: str
    body: bytes


Pages = Mapping[str, Callable[[], Page]]
"""The function that makes each page, by path. Called on the server's thread."""


class _Connection:
    __slots__ = ("answer", "deadline", "request", "socket")

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.deadline = time.monotonic() + DEADLINE_MS / 1000
        self.request = b""
        self.answer = b""


class HttpServer:
    """Serves `pages` between `start` and `stop`."""

    def __init__(
        self,
        host: str,
        port: int,
        pages: Pages,
        *,
        token_file: Path | None = None,
        host_setting: str = "http.host",
        port_setting: str = "--http-port",
    ) -> None:
        """`token_file`: what it holds is asked for by every page but those about health. The settings are the names by which the
        user gave host and port. Raises Unprotected.
        """
        self._setting_names = host_setting, port_setting
        self._token = None if token_file is None else BearerToken(token_file)
        self._host, self._wanted_port, self._pages = host, port, pages
        self._allowed = allowed_hosts(os.environ, host)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, _Connection] = {}
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._listener: socket.socket | None = None
        self._faults = RateLimitedLog(log, SystemClock().monotonic_ms)

    @property
    def port(self) -> int:
        """The port listened on; known after `start`."""
        assert self._listener is not None, "not started"
        port: int = self._listener.getsockname()[1]
        return port

    def start(self) -> None:
        """Listen and begin to answer. Raises: AddressInUse."""
        try:
            family = socket.getaddrinfo(self._host, self._wanted_port, type=socket.SOCK_STREAM)[0][0]
            self._listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((self._host, self._wanted_port))
            self._listener.listen(CONNECTIONS)
        except OSError as error:
            raise AddressInUse.from_os_error(
                "cannot serve metrics and health",
                (self._host, self._wanted_port),
                error,
                host_setting=self._setting_names[0],
                port_setting=self._setting_names[1],
            ) from error
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and close everything."""
        self._is_stopping = True
        os.eventfd_write(self._wake, 1)
        self._thread.join(DEADLINE_MS / 1000)

    def _run(self) -> None:
        while not self._is_stopping:
            for key, _ in self._selector.select(LOOK_EVERY_MS / 1000):
                if key.fileobj is self._listener:
                    self._accept()
                elif (connection := self._connections.get(key.fd)) is not None:
                    self._serve(connection)
            now = time.monotonic()
            for late in [one for one in self._connections.values() if now >= one.deadline]:
                self._close(late)
        for connection in list(self._connections.values()):
            self._close(connection)
        assert self._listener is not None
        self._listener.close()
        self._selector.close()

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            connected, _ = self._listener.accept()
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                self._faults.warning("http_accept_failed", why=str(error))
                time.sleep(LOOK_EVERY_MS / 1000)  # no descriptor is left: without a pause the loop would spin
            return
        connected.setblocking(False)
        if len(self._connections) >= CONNECTIONS:
            self._close(min(self._connections.values(), key=lambda one: one.deadline))
        self._connections[connected.fileno()] = _Connection(connected)
        self._selector.register(connected, selectors.EVENT_READ)

    def _close(self, connection: _Connection) -> None:
        del self._connections[connection.socket.fileno()]
        self._selector.unregister(connection.socket)
        connection.socket.close()

    def _serve(self, connection: _Connection) -> None:
        try:
            if not connection.answer:
                received = connection.socket.recv(REQUEST_BYTES)
                connection.request += received
                if not received:
                    self._close(connection)
                    return
                if (answer := self._answer(connection.request)) is None:
                    return
                connection.answer = answer
                self._selector.modify(connection.socket, selectors.EVENT_WRITE)
                connection.deadline = time.monotonic() + DEADLINE_MS / 1000
            sent = connection.socket.send(connection.answer)
            connection.answer = connection.answer[sent:]
            if not connection.answer:
                self._close(connection)
        except BlockingIOError:
            pass
        except OSError:
            self._close(connection)

    def _answer(self, request: bytes) -> bytes | None:
        """Return the response to a complete request, None while the request is incomplete."""
        if b"\r\n\r\n" not in request and b"\n\n" not in request:
            return None if len(request) <= REQUEST_BYTES else _response(_text(431, "the request's header is too long"), "GET")
        words = request.split(b"\n", 1)[0].decode("latin-1").split()
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            return _response(_text(400, "this is not an HTTP request"), "GET")
        method, path = words[0], words[1].partition("?")[0]
        refused = why_refused(method, lambda name: _values(request, name), self._allowed)
        if refused is not None:
            return _response(_text(*refused), method)
        if method not in ("GET", "HEAD"):
            return _response(_text(405, "GET and HEAD are answered"), method)
        if (
            self._token is not None
            and not is_open(path)
            and not self._token.admits(next(iter(_values(request, "authorization")), None))
        ):
            return _response(_text(401, UNAUTHORIZED), method, f"WWW-Authenticate: {CHALLENGE}\r\n")
        page = self._pages.get(path)
        if page is None:
            return _response(_text(404, f"there is {', '.join(self._pages)}"), method)
        try:
            return _response(page(), method)
        except Exception as error:
            self._faults.error("page_failed", path=path, exc_info=True)
            return _response(_text(500, repr(error)), method)


def _text(status: int, words: str) -> Page:
    return Page(status, "text/plain; charset=utf-8", f"{words}\n".encode())


def _values(request: bytes, wanted: str) -> list[str]:
    """Return the values of a header, by its name in lower case."""
    pairs = (line.partition(b":") for line in request.split(b"\n")[1:])
    return [value.strip().decode("latin-1") for name, _, value in pairs if name.strip().lower() == wanted.encode()]


def _response(page: Page, method: str, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\nContent-Type: {page.content_type}\r\n{more}"
        f"Content-Length: {len(page.body)}\r\nCache-Control: no-store\r\n{_SAFETY}Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if method == "HEAD" else page.body)
