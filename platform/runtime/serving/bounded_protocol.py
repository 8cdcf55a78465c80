"""uvicorn's HTTP protocol with bounds: how long a request may take to arrive, how long its head may be, how many connections are
open, how long a client may leave its response untaken.

uvicorn uses httptools where it is installed, else h11. httptools has no limits. Both count connections, not requests,
so their `limit_concurrency` is not used: `guard.py` counts requests.
"""

import asyncio
import logging
import resource
import time
from typing import Any

import h11
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10
"""How long a request may take from its first byte, or a new connection may take, until the request is whole."""
UNTAKEN_S = 30
"""How long a client may take nothing of its response."""
HEAD_BYTES = 64 * 1024
"""The longest head of a request. What a chunked body costs beside its content may be as long as that more."""
HEAD_LINES = 100
MOST_CONNECTIONS = 2_000
"""Beyond it the oldest connection without a request is closed. Fewer where the process may not open so many files."""
PIECE_BYTES = 16 * 1024
"""How much is parsed (bytes) before the limits are checked again."""
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_LATE = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class OncePerSecond(logging.Filter):
    """Lets each message of uvicorn's through once a second: a peer can cause as many as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[str, float] = {}
        """By the text in uvicorn's code."""

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now < self._next.get(str(record.msg), 0.0):
            return False
        self._next[str(record.msg)] = now + 1
        return True


def most_connections() -> int:
    """Return how many connections a server keeps: half of the files that this process may open, at most `MOST_CONNECTIONS`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, max(16, soft // 2))


class HeadTooLong(Exception):
    """Raised inside a callback of the parser, which makes it an error of the parser."""


class _Bounded(asyncio.Protocol):
    """What is the same over both parsers."""

    most_connections: int
    transport: Any
    connections: Any
    cycle: Any
    loop: Any
    _late: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None
    _since = 0.0
    """When the connection was opened, or its last request was whole."""
    _piece_bytes = _beside = _body_bytes = 0
    """Of the request that arrives: the bytes of its body, and those of everything else."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since = self.loop.time()
        self._expect()
        if len(self.connections) > self.most_connections:
            self._close_one()

    def connection_lost(self, exc: Exception | None) -> None:
        self._whole()
        self._taken()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE_BYTES):
            if self.transport.is_closing():
                return
            piece = data[at : at + PIECE_BYTES] if len(data) > PIECE_BYTES else data
            self._beside += len(piece)
            self._piece_bytes = len(piece)
            super().data_received(piece)
            # The clock runs as long as a request is not whole.
            if self._beside > HEAD_BYTES + self._body_bytes and self._late is not None and not self.transport.is_closing():
                self._end(_TOO_LONG)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._untaken is None:
            self._untaken = self.loop.call_later(UNTAKEN_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._taken()
        super().resume_writing()

    @property
    def is_asked(self) -> bool:
        """Return whether a whole request waits for its response."""
        return self.cycle is not None and not self.cycle.response_complete and self._late is None

    def _expect(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(REQUEST_S, self._too_late)

    def _whole(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
            self._since = self.loop.time()

    def _taken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None

    def _begins(self) -> None:
        # Part of this piece may be of the request before: at most one piece too much is counted.
        self._beside, self._body_bytes = self._piece_bytes, 0

    def _counts(self, body_bytes: int) -> None:
        self._body_bytes += body_bytes
        self._beside -= body_bytes

    def _end(self, answer: bytes) -> None:
        """Answer so, unless a response has begun, and close."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(answer)
        self.transport.close()

    def _too_late(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self._end(_LATE)

    def _close_one(self) -> None:
        """Close the connection that has been without a request for longest; this one if all have one."""
        idle = [one for one in self.connections if one is not self and not one.is_asked and not one.transport.is_closing()]
        # Of those that never sent a request first: a client that keeps its connection sent one.
        oldest = min(idle, key=lambda one: (one.cycle is not None, one._since), default=self)
        oldest.transport.abort()


class _BoundedH11(_Bounded, H11Protocol):
    """h11 bounds the bytes of a head itself (`h11_max_incomplete_event_size`); its lines are counted by `guard.py`."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        next_event = self.conn.next_event

        def counted() -> Any:
            event = next_event()
            if isinstance(event, h11.Request):
                self._begins()
            elif isinstance(event, h11.Data):
                self._counts(len(event.data))
            return event

        self.conn.next_event = counted  # type: ignore[method-assign]

    def data_received(self, data: bytes) -> None:
        self._expect()
        super().data_received(data)
        state = self.conn.their_state
        if state is not h11.SEND_BODY and not (state is h11.IDLE and self.conn.trailing_data[0]):
            self._whole()


def _over_httptools(parent: type[Any]) -> type[Any]:
    class _BoundedHttpTools(_Bounded, parent):  # type: ignore[misc]
        _lines = 0

        def on_message_begin(self) -> None:
            self._lines = 0
            self._begins()
            self._expect()
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            self._lines += 1
            if self._lines > HEAD_LINES:
                raise HeadTooLong(f"more than {HEAD_LINES} header lines")
            super().on_header(name, value)

        def on_body(self, body: bytes) -> None:
            self._counts(len(body))
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._whole()
            super().on_message_complete()

    return _BoundedHttpTools


def bounded_protocol(parent: type[Any] = AutoHTTPProtocol) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with these bounds, for `uvicorn.Config(http=…)`."""
    base = _BoundedH11 if issubclass(parent, H11Protocol) else _over_httptools(parent)
    return type("BoundedProtocol", (base,), {"most_connections": most_connections()})


def quiet_log() -> None:
    """Bound what a peer can make uvicorn log."""
    logger = logging.getLogger("uvicorn.error")
    if not any(isinstance(one, OncePerSecond) for one in logger.filters):
        logger.addFilter(OncePerSecond())
