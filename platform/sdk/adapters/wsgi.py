"""One event per HTTP request, for any WSGI application. Knows no framework: PEP 3333.

The event is logged when the server closes the response, so it has the bytes that went out. It never fails a request, and waits
for room in the buffer at most `max_block_ms`. A server's own `wsgi.file_wrapper` is wrapped like any other response: it sends
such files in blocks, not with sendfile.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from types import TracebackType
from typing import Any
from urllib.parse import quote

from ...runtime.clock import Clock, SystemClock
from ..event_logger import EventLogger
from .asgi import UNFINISHED
from .complaints import Complaints

Environ = dict[str, Any]
ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]
StartResponse = Callable[..., Callable[[bytes], object]]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class AuditedWsgiRequests:
    """WSGI middleware: `AuditedWsgiRequests(app, logger)` logs one event of `ACCESS_LOG_SCHEMA` for each request.

    The event time is when the request came. Requests to `skip_paths` (health probes, say) are let through unlogged.
    """

    def __init__(
        self,
        app: App,
        logger: EventLogger,
        *,
        skip_paths: Collection[str] = (),
        max_block_ms: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self._app = app
        self._logger = logger
        self._skip_paths = frozenset(skip_paths)
        self._max_block_ms = max_block_ms
        self._clock = clock or SystemClock()
        self._complaints = Complaints("request_not_logged", logger.topic, clock)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") in self._skip_paths:
            return self._app(environ, start_response)
        request = _Request(environ, start_response, self._clock.now_ms(), self._log)
        try:
            request.parts = self._app(environ, request.start_response)
        except Exception:
            request.end(failed=True)
            raise
        return request

    def _log(self, environ: Environ, came_ms: int, status: int, size_bytes: int) -> None:
        try:
            event = wsgi_access_event(environ, status=status, size_bytes=size_bytes)
            self._logger.log(event, event_time_ms=came_ms, max_block_ms=self._max_block_ms)
        except Exception as error:
            self._complaints.tell(error)


class _Request:
    """One request's response, watched as the server takes it."""

    def __init__(
        self, environ: Environ, start_response: StartResponse, came_ms: int, on_end: Callable[[Environ, int, int, int], None]
    ) -> None:
        self.parts: Iterable[bytes] = ()
        self._environ = environ
        self._start_response = start_response
        self._came_ms = came_ms
        self._on_end = on_end
        self._status: int | None = None
        self._size_bytes = 0
        self._has_ended = False

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: ExcInfo | None = None
    ) -> Callable[[bytes], object]:
        write = self._start_response(status, headers) if exc_info is None else self._start_response(status, headers, exc_info)
        self._status = int(status[:3]) if status[:3].isdecimal() else UNFINISHED

        def watching_write(data: bytes) -> object:
            self._size_bytes += len(data)
            return write(data)

        return watching_write

    def __iter__(self) -> Iterator[bytes]:
        try:
            for part in self.parts:
                self._size_bytes += len(part)
                yield part
        except Exception:
            self.end(failed=True)
            raise

    def close(self) -> None:
        """The server's last call, whether the response was sent whole or not."""
        try:
            close = getattr(self.parts, "close", None)
            if close is not None:
                close()
        finally:
            self.end()

    def end(self, *, failed: bool = False) -> None:
        """Log the request, once. A failure before the status was sent is what the server makes of it: 500."""
        if not self._has_ended:
            self._has_ended = True
            status = self._status if self._status is not None else 500 if failed else UNFINISHED
            self._on_end(self._environ, self._came_ms, status, self._size_bytes)


def wsgi_access_event(environ: Environ, *, status: int, size_bytes: int) -> dict[str, Any]:
    """Return the access-log event of a WSGI request; its target as the client sent it where the server tells it."""
    target = environ.get("RAW_URI") or environ.get("REQUEST_URI")
    if not target:
        path = quote((environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1")) or "/"
        query = environ.get("QUERY_STRING")
        target = f"{path}?{query}" if query else path
    return {
        "client_ip": environ.get("REMOTE_ADDR") or "-",
        "ident": None,
        "user": environ.get("REMOTE_USER") or None,
        "method": environ["REQUEST_METHOD"],
        "path": target,
        "protocol": environ.get("SERVER_PROTOCOL"),
        "status": status,
        "size_bytes": size_bytes,
        "referrer": environ.get("HTTP_REFERER"),
        "user_agent": environ.get("HTTP_USER_AGENT"),
    }
