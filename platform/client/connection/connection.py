"""One TCP connection to one broker: frames out, frames in, one request in flight. Knows correlation ids and versions, no API's
content.

The socket is opened at the first request and opened again after a failure, so a `Connection` outlives the broker's restarts. A
request that fails after it was sent may have been carried out. The error says so: only a caller that can detect duplicates (an
idempotent producer) may send it again. Source: Kafka's protocol guide, "Network". ApiVersions is requested in version 0, which
every broker from 0.10 to 4.x answers.
"""

import math
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

from ...wire.errors import WireError
from ...wire.messages import control
from ..errors import BadAnswer, BrokerUnreachable, ClientError, RequestTimedOut, TokenUnavailable, UnsupportedApi
from . import authentication

if TYPE_CHECKING:
    from ..security.client_security import ClientSecurity
    from ..security.tls_socket import TlsSocket

Buffer = bytes | bytearray | memoryview

LARGEST_ANSWER_BYTES = 256 << 20
"""A response that claims to be larger is rejected. Read as a length, the text `HTTP` would be 1.2 GB."""
PROGRESS_BYTES = 256 << 10
"""For each so many bytes, either way, a request has its whole time again: a slow line is not a broker that is away."""
_GATHERED_FROM = 64 << 10
_MOST_PIECES = 512
"""Of one call to the kernel, which takes 1,024."""
CONNECT_TIMEOUT_MS = 5_000
RENEWED_AFTER = 0.85
"""The part of a session's lifetime after which the login is renewed, as Kafka's clients do."""
_TOKEN_AGAIN_S = 1.0
_TLS_ALERT = 0x150303
"""The first bytes of what a TLS listener answers to a peer that speaks none (RFC 8446, section 5.1)."""

_SIZE = struct.Struct(">i")
_API_NAMES = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    10: "FindCoordinator",
    15: "DescribeGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    22: "InitProducerId",
    32: "DescribeConfigs",
    36: "SaslAuthenticate",
    44: "IncrementalAlterConfigs",
}


class Connection:
    """Requests to one broker, in order, from any thread. `request` holds the connection until the response arrives.

    `begin`, `fileno` and `finish` are for one owning thread that waits for several brokers at once.
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str = "headrace",
        timeout_ms: int = 30_000,
        *,
        security: "ClientSecurity | None" = None,
    ) -> None:
        """`security`: how to speak TLS and to log in; None: in the clear."""
        self.host = host
        self.port = port
        self.client_id = client_id
        self.timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._security = security
        self._log_in_again_at = math.inf
        self._session_ends_at = math.inf
        """Monotonic seconds."""
        self._socket: socket.socket | TlsSocket | None = None
        self._served: dict[int, tuple[int, int]] = {}
        self._correlation_id = 0
        self._first_request_id = 0
        self._in_flight: tuple[int, int, int] | None = None
        self._closed = False

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def request(
        self, api_key: int, version: int, body: Buffer | Sequence[Buffer], *, timeout_ms: int | None = None
    ) -> memoryview:
        """Return the response body (without its header), in memory of its own.

        Raises `BrokerUnreachable`, `RequestTimedOut`, `BadAnswer`. Each closes the socket; the next request opens another.
        """
        with self._lock:
            self.begin(api_key, version, body, timeout_ms=timeout_ms)
            return self.finish(timeout_ms=timeout_ms)

    def version(self, api_key: int, lowest: int, highest: int) -> int:
        """Return the highest version from `lowest` to `highest` that the broker serves. Raises `UnsupportedApi`."""
        with self._lock:
            return self.negotiated(api_key, lowest, highest)

    def negotiated(self, api_key: int, lowest: int, highest: int) -> int:
        """Return the same as `version`, for the owning thread."""
        self._open()
        served = self._served.get(api_key)
        if served is None or served[1] < lowest or served[0] > highest:
            raise UnsupportedApi(self.address, _api(api_key), (lowest, highest), served)
        return min(highest, served[1])

    def begin(self, api_key: int, version: int, body: Buffer | Sequence[Buffer], *, timeout_ms: int | None = None) -> None:
        """Send a request. Call `finish` to receive its response before the next `begin`."""
        self._open()
        self._send(api_key, version, body, self.timeout_ms if timeout_ms is None else timeout_ms)

    def fileno(self) -> int:
        """Return the open socket's descriptor, for poll; -1 when there is none."""
        return -1 if self._socket is None else self._socket.fileno()

    def finish(self, *, timeout_ms: int | None = None) -> memoryview:
        """Return the body of the response to the last `begin`."""
        if self._in_flight is None:
            raise BrokerUnreachable(self.address, "no request", "the connection was closed before the answer", was_sent=True)
        api_key, version, correlation_id = self._in_flight
        answer = self._receive(api_key, self.timeout_ms if timeout_ms is None else timeout_ms)
        self._in_flight = None
        try:
            got, at = control.read_response_header(api_key, version, answer)
        except WireError as error:
            self.close_socket()
            raise BadAnswer(self.address, _api(api_key), str(error)) from error
        if got != correlation_id:
            self.close_socket()
            raise BadAnswer(self.address, _api(api_key), f"it answers request {got}, not {correlation_id}")
        return answer[at:]

    def drop_unanswered(self) -> None:
        """Close the socket if a request is in flight whose response will not be read."""
        if self._in_flight is not None:
            self.close_socket()

    def close_socket(self) -> None:
        """Close the socket; the next request opens another. A request in flight is lost."""
        held, self._socket = self._socket, None
        self._in_flight = None
        if held is not None:
            held.close()

    def close(self) -> None:
        """Close permanently, from any thread; a request in flight fails."""
        self._closed = True
        held = self._socket
        if held is not None:
            try:
                held.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            held.close()

    def let_go(self) -> None:
        """Close this process's descriptor only, in the child of a fork: the parent's connection continues. Takes no lock."""
        self._closed = True
        held, self._socket = self._socket, None
        if held is not None:
            held.close()

    def _open(self) -> None:
        if self._socket is not None and self._in_flight is None and _has_news(self._socket):
            # No response is expected, so readable bytes mean that the broker closed the connection: it restarted, or the
            # connection was idle too long. Detected before a request is sent, this costs only a new connection.
            self.close_socket()
        if self._socket is not None and self._in_flight is None and time.monotonic() >= self._log_in_again_at:
            self._log_in_again()
        if self._socket is not None:
            return
        self._check_open("connect")
        self._socket = self._connected()
        try:
            self._served = self._ask_versions()
            self._log_in()
            self._first_request_id = self._correlation_id + 1
        except BaseException as error:
            # Whatever it was: a connection whose versions are not known would be taken for a broker that serves nothing.
            self.close_socket()
            if self._security is not None and (refusal := self._security.refusal_in(self.address, error)) is not None:
                raise refusal from None
            raise

    def _connected(self) -> "socket.socket | TlsSocket":
        """Return a new connection, with TLS if it is wanted."""
        if self._security is not None:
            self._security.check_may_try(self.address)
        try:
            made = socket.create_connection((self.host, self.port), timeout=min(CONNECT_TIMEOUT_MS, self.timeout_ms) / 1000)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._security is None:
                return made
            return self._security.wrapped(made, self.host, self.address, self.timeout_ms / 1000)
        except OSError as error:
            raise BrokerUnreachable(self.address, "connect", error.strerror or str(error), was_sent=False) from error

    def _log_in(self) -> None:
        self._log_in_again_at = self._session_ends_at = math.inf
        if self._security is None or self._security.mechanism is None:
            return
        begun = time.monotonic()
        lifetime_s = authentication.log_in(self._call, self._served, self._security, self.address) / 1000
        if lifetime_s > 0:
            self._log_in_again_at = begun + lifetime_s * RENEWED_AFTER
            self._session_ends_at = begun + lifetime_s

    def _log_in_again(self) -> None:
        """Renew the session on the open connection. Raises what a first login raises; the connection is closed then."""
        ends_at = self._session_ends_at
        try:
            self._log_in()
        except TokenUnavailable:
            if time.monotonic() >= ends_at:
                self.close_socket()
                raise
            self._log_in_again_at, self._session_ends_at = time.monotonic() + _TOKEN_AGAIN_S, ends_at
        except BrokerUnreachable:
            self.close_socket()  # nothing was sent on it that anybody waits for: a new connection is opened
        except ClientError:
            self.close_socket()
            raise

    def _call(self, api: tuple[int, int], message: Mapping[str, Any]) -> Any:
        """Send a request of the login and return its response."""
        api_key, version = api
        self._send(api_key, version, control.encode_request(api_key, version, message), self.timeout_ms)
        body = self.finish()
        try:
            return control.decode_response(api_key, version, body)
        except WireError as error:
            raise BadAnswer(self.address, _api(api_key), str(error)) from error

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        self._send(control.API_VERSIONS_KEY, 0, b"", self.timeout_ms)
        body = self.finish()
        try:
            code, ranges = control.decode_api_versions(0, body)
        except WireError as error:
            raise BadAnswer(self.address, "ApiVersions", str(error)) from error
        if code:
            raise BadAnswer(self.address, "ApiVersions", f"error {code} to version 0, which every broker serves")
        return ranges

    def _send(self, api_key: int, version: int, body: Buffer | Sequence[Buffer], timeout_ms: int) -> None:
        if self._socket is None or self._in_flight is not None:
            self._check_open(_api(api_key))
            raise BrokerUnreachable(self.address, _api(api_key), "a request is in flight on this connection", was_sent=False)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = control.write_request_header(api_key, version, self._correlation_id, self.client_id)
        chunks = [body] if isinstance(body, bytes | bytearray | memoryview) else list(body)
        size = len(header) + sum(map(len, chunks))
        self._in_flight = (api_key, version, self._correlation_id)
        try:
            if size >= _GATHERED_FROM and isinstance(self._socket, socket.socket):
                _send_gathered(self._socket, [_SIZE.pack(size), header, *chunks], timeout_ms / 1000)
                return
            whole = memoryview(b"".join([_SIZE.pack(size), header, *chunks]))
            for at in range(0, len(whole), PROGRESS_BYTES):
                self._socket.settimeout(timeout_ms / 1000)
                self._socket.sendall(whole[at : at + PROGRESS_BYTES])
        except OSError as error:
            self._fail(api_key, error, timeout_ms)

    def _receive(self, api_key: int, timeout_ms: int) -> memoryview:
        timeout_s = timeout_ms / 1000
        deadline = time.monotonic() + timeout_s
        try:
            (size,) = _SIZE.unpack(self._receive_exactly(4, deadline, timeout_s))
            if not 4 <= size <= LARGEST_ANSWER_BYTES:
                self.close_socket()
                is_tls = size >> 8 == _TLS_ALERT and self._security is None
                hint = ": it is TLS, so give a client configuration with security.protocol=SSL or SASL_SSL" if is_tls else ""
                raise BadAnswer(self.address, _api(api_key), f"it claims {size} bytes{hint}")
            return memoryview(self._receive_exactly(size, deadline, timeout_s)).toreadonly()
        except OSError as error:
            self._fail(api_key, error, timeout_ms)

    def _receive_exactly(self, size: int, deadline: float, timeout_s: float) -> bytearray:
        answer = bytearray(size)
        view = memoryview(answer)
        at = renewed_at = 0
        while at < size:
            if at - renewed_at >= PROGRESS_BYTES:
                deadline, renewed_at = time.monotonic() + timeout_s, at
            held = self._socket
            left = deadline - time.monotonic()
            if held is None or left <= 0:
                raise TimeoutError
            held.settimeout(left)
            got = held.recv_into(view[at:])
            if not got:
                raise ConnectionResetError(0, "the broker closed the connection" + (f" after {at} of {size} bytes" if at else ""))
            at += got
        return answer

    def _fail(self, api_key: int, error: OSError, timeout_ms: int) -> NoReturn:
        self.close_socket()
        self._check_open(_api(api_key), was_sent=True)
        if isinstance(error, TimeoutError):
            reason = f"no answer within {timeout_ms} ms"
            raise RequestTimedOut(self.address, _api(api_key), reason, was_sent=True) from error
        reason = error.strerror or str(error)
        if self._security is None and api_key != control.API_VERSIONS_KEY and self._correlation_id == self._first_request_id:
            reason += (
                " at the first request, as a listener does that wants a login (then give a client configuration with sasl.…)"
            )
        raise BrokerUnreachable(self.address, _api(api_key), reason, was_sent=True) from error

    def _check_open(self, api: str, *, was_sent: bool = False) -> None:
        if self._closed:
            raise BrokerUnreachable(self.address, api, "this client closed the connection", was_sent=was_sent)


def _send_gathered(held: socket.socket, pieces: Sequence[Buffer], timeout_s: float) -> None:
    """Send the pieces as they lie in memory: to join those of a large request first costs more than all else about it."""
    left = deque(memoryview(piece) for piece in pieces if len(piece))
    sent = renewed_at = 0
    deadline = time.monotonic() + timeout_s
    while left:
        if sent - renewed_at >= PROGRESS_BYTES:
            deadline, renewed_at = time.monotonic() + timeout_s, sent
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError
        held.settimeout(remaining_s)
        gone = held.sendmsg(islice(left, _MOST_PIECES))
        sent += gone
        while left and gone >= len(left[0]):
            gone -= len(left.popleft())
        if gone:
            left[0] = left[0][gone:]


def _has_news(held: "socket.socket | TlsSocket") -> bool:
    if not isinstance(held, socket.socket):
        return held.has_news()
    try:
        poll = select.poll()
        poll.register(held, select.POLLIN)
        return bool(poll.poll(0))
    except (OSError, ValueError):
        return True


def _api(api_key: int) -> str:
    return _API_NAMES.get(api_key, f"API {api_key}")
