"""The HTTP servers of `[[http]]` sections: `POST /topics/<topic>`, one thread a connection, bounded in number, size and time.

202 only when every event of the request is journaled. Of 400 and 413 nothing was taken; 503 says how many of the first were. A
connection beyond `most_connections` is answered 429 and closed.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from ...runtime.http_access import CHALLENGE, UNAUTHORIZED, BearerToken, HttpAccess, is_open
from ...runtime.logs import get_logger
from ...runtime.serving.request_rules import allowed_hosts, why_refused
from ...sdk.journal import JournalNotDurable
from ..errors import AgentError
from .content_encoding import TAKEN, EncodingRefused, codec_of
from .counts import Counts
from .http_topic import RETRY_AFTER_S, Answer, HttpTopic
from .server_tls import tls_of
from .settings import Address

log = get_logger(__name__)

PREFIX = "/topics/"
_REFUSED = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_READ_BYTES = 65_536
MOST_DIGITS = 18
"""Of a Content-Length."""
_POLL_S = 0.1


class HttpReceiver:
    """One address and the topics that it takes. It owns their journals."""

    def __init__(self, listen: Address, topics: Sequence[HttpTopic], counts: Counts) -> None:
        self.listen = listen
        self._topics = {one.settings.topic: one for one in topics}
        self._counts = counts
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen. Raises AgentError."""
        settings = [one.settings for one in self._topics.values()]
        try:
            self._server = _Server(
                self.listen,
                self._topics,
                self._counts,
                access=settings[0].access,
                most_connections=sum(one.most_connections for one in settings),
                request_ms=max(one.request_ms for one in settings),
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise AgentError(f"[[http]] {settings[0].name!r}: cannot listen on {self.listen}: {reason}") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name=f"headrace-http-{self.port}", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.server_address[1])

    def stop(self) -> None:
        """Take no more connections, end those that are open, and the journals."""
        if self._server is not None:
            if self._thread is not None:
                self._server.shutdown()
            self._server.server_close()
            self._server.end_connections()
        for one in self._topics.values():
            with suppress(JournalNotDurable):
                one.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        listen: Address,
        topics: Mapping[str, HttpTopic],
        counts: Counts,
        *,
        access: HttpAccess,
        most_connections: int,
        request_ms: int,
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        self.topics = topics
        self.counts = counts
        self.token: BearerToken | None = access.token()
        self.request_s = request_ms / 1000
        self.allowed = allowed_hosts(os.environ, listen.host)
        self._tls = tls_of(access)
        self._slots = threading.BoundedSemaphore(most_connections)
        self._lock = threading.Lock()
        self._deadlines: dict[socket.socket, float] = {}
        """When each connection's request, or its silence, has lasted too long (monotonic)."""
        super().__init__(listen, _Handler)

    def begin_request(self, connection: socket.socket) -> None:
        """Give the connection its time again."""
        with self._lock:
            self._deadlines[connection] = time.monotonic() + self.request_s

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.settimeout(self.request_s)
        if self._tls is not None:
            connection = self._tls.context().wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            self.counts.add("connections_refused")
            with suppress(OSError):
                if self._tls is None:
                    request.sendall(_REFUSED)
            self.shutdown_request(request)
            return
        self.counts.add("connections")
        self.begin_request(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._deadlines.pop(request, None)
            self._slots.release()

    def service_actions(self) -> None:
        """End connections that take too long, however steadily they send."""
        now = time.monotonic()
        with self._lock:
            late = [one for one, deadline in self._deadlines.items() if now > deadline]
        for one in late:
            self.counts.add("connections_too_slow")
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def end_connections(self) -> None:
        with self._lock:
            open_ones = list(self._deadlines)
        for one in open_ones:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RD)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is not a fault of ours; what is one, is logged by the handler."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "headrace"
    sys_version = ""
    server: _Server

    def do_POST(self) -> None:
        self.server.begin_request(self.connection)
        self.server.counts.add("requests")
        topic = self.server.topics.get(unquote(self.path.partition("?")[0].removeprefix(PREFIX)))
        lengths = self.headers.get_all("Content-Length", [])
        if self._is_refused():
            pass
        elif not self._is_admitted():
            self._say(Answer(401, {"error": UNAUTHORIZED}), closes=True)
        elif topic is None or not self.path.startswith(PREFIX):
            known = ", ".join(f"{PREFIX}{name}" for name in self.server.topics)
            self._say(Answer(404, {"error": f"there is no {self.path}: post to {known}"}), closes=True)
        elif self.headers.get("Transfer-Encoding") or not lengths or not all(_is_number(one) for one in lengths):
            self._say(Answer(411, {"error": "give a Content-Length; chunked bodies are not taken"}), closes=True)
        elif len(lengths) > 1:
            self._say(Answer(400, {"error": "the request has several Content-Length headers: send one"}), closes=True)
        elif int(lengths[0]) > topic.settings.most_body_bytes:
            self._say(Answer(413, {"error": f"a body has at most {topic.settings.most_body_bytes} bytes"}), closes=True)
        else:
            self._take(topic, int(lengths[0]))
        self.server.begin_request(self.connection)

    def _take(self, topic: HttpTopic, length: int) -> None:
        try:
            codec = codec_of(self.headers.get_all("Content-Encoding", []))
        except EncodingRefused as error:
            # Clients tell by this header that the coding is meant, and not the type (RFC 9110, 12.5.3).
            self._say(Answer(error.status, {"error": str(error)}, (("Accept-Encoding", TAKEN),)), closes=True)
            return
        body = self._body(length)
        if body is None:
            return
        try:
            answer = topic.post(self.headers.get("Content-Type", ""), body, codec)
        except Exception as error:
            log.error("http_post_failed", topic=topic.settings.topic, exc_info=True)
            answer = Answer(500, {"error": f"this agent's own fault: {type(error).__name__}"})
        self._say(answer)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self._is_refused():
            pass
        elif is_open(path):
            self._say(Answer(200, {"alive": True}))
        elif not self._is_admitted():
            self._say(Answer(401, {"error": UNAUTHORIZED}), closes=True)
        else:
            self._say(Answer(405 if path.startswith(PREFIX) else 404, {"error": f"post events to {PREFIX}TOPIC"}))

    def log_message(self, format: str, *args: object) -> None:
        """No line a request."""

    def _is_refused(self) -> bool:
        """Refuse what a page of another origin may have caused, and return whether it was so."""
        why = why_refused(self.command, lambda name: self.headers.get_all(name, []), self.server.allowed)
        if why is not None:
            self._say(Answer(why.status, {"error": why.words, "accepted": 0}), closes=True)
        return why is not None

    def _is_admitted(self) -> bool:
        token = self.server.token
        return token is None or token.admits(self.headers.get("Authorization"))

    def _body(self, length: int) -> bytes | None:
        """Return the body; None if the connection ended before it was whole."""
        pieces = []
        while length:
            piece = self.rfile.read1(min(length, _READ_BYTES))
            if not piece:
                self.close_connection = True
                return None
            pieces.append(piece)
            length -= len(piece)
        return b"".join(pieces)

    def _say(self, answer: Answer, *, closes: bool = False) -> None:
        """`closes`: what the client has still to send is not read."""
        self.server.counts.add(f"answers_{answer.status}")
        body = json.dumps(answer.words).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if answer.status in (429, 503):
            self.send_header("Retry-After", str(RETRY_AFTER_S))
        if answer.status == 401:
            self.send_header("WWW-Authenticate", CHALLENGE)
        for name, value in answer.headers:
            self.send_header(name, value)
        if closes:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= MOST_DIGITS
