"""One event per HTTP request, for any ASGI application. Knows no framework: plain ASGI 3.

Never holds the event loop up (an event for which the buffer has no room is dropped and counted) and never fails a request (what
goes wrong with the logging is logged, once in a while).
"""

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from ...runtime.clock import Clock, SystemClock
from ..event_logger import EventLogger
from .complaints import Complaints

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

UNFINISHED = 499
"""The status of a request that ended before an answer began and without a failure of ours: the client went away (nginx's word
for it).
"""


class AuditedRequests:
    """ASGI middleware: `AuditedRequests(app, logger)` logs one event of `ACCESS_LOG_SCHEMA` for each request.

    The event time is when the request came. Requests to `skip_paths` (health probes, say) are let through unlogged.
    """

    def __init__(self, app: App, logger: EventLogger, *, skip_paths: Collection[str] = (), clock: Clock | None = None) -> None:
        self._app = app
        self._logger = logger
        self._skip_paths = frozenset(skip_paths)
        self._clock = clock or SystemClock()
        self._complaints = Complaints("request_not_logged", logger.topic, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._skip_paths:
            await self._app(scope, receive, send)
            return
        came_ms = self._clock.now_ms()
        status: int | None = None
        size_bytes = 0

        async def watching_send(message: Message) -> None:
            nonlocal status, size_bytes
            await send(message)
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                size_bytes += len(message.get("body", b""))

        try:
            await self._app(scope, receive, watching_send)
        except Exception:
            # What the server makes of an application that failed before it answered.
            status = 500 if status is None else status
            raise
        finally:
            self._log(scope, came_ms, UNFINISHED if status is None else status, size_bytes)

    def _log(self, scope: Scope, came_ms: int, status: int, size_bytes: int) -> None:
        try:
            self._logger.log(access_event(scope, status=status, size_bytes=size_bytes), event_time_ms=came_ms, max_block_ms=0)
        except Exception as error:
            self._complaints.tell(error)


def access_event(scope: Scope, *, status: int, size_bytes: int) -> dict[str, Any]:
    """Return the access-log event of an ASGI request; its target as the client sent it, query and all."""
    headers: dict[bytes, bytes] = {}
    for name, value in scope.get("headers") or ():
        headers.setdefault(name.lower(), value)
    raw_path = scope.get("raw_path")
    path = raw_path.decode("latin-1") if raw_path else scope["path"]
    query = scope.get("query_string") or b""
    client = scope.get("client")
    return {
        "client_ip": client[0] if client else "-",
        "ident": None,
        "user": None,
        "method": scope["method"],
        "path": f"{path}?{query.decode('latin-1')}" if query else path,
        "protocol": f"HTTP/{scope.get('http_version', '1.1')}",
        "status": status,
        "size_bytes": size_bytes,
        "referrer": _text(headers.get(b"referer")),
        "user_agent": _text(headers.get(b"user-agent")),
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
