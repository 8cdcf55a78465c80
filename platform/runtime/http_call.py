"""One HTTP request and its whole answer, bounded in time and in size. Every caller of an HTTP service uses it.

It follows no redirect and asks no proxy: a token goes to the address in the settings and nowhere else. The caller decides what a
status means.
"""

import http.client
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import HeadraceError

if TYPE_CHECKING:
    import ssl

MOST_ANSWER_BYTES = 16 << 20
"""The longest answer that is read; a longer one is refused rather than held in memory."""
_PART_BYTES = 65_536


class NoHttpAnswer(HeadraceError):
    """There was no complete answer: connection refused, timeout, or not HTTP. The message is the reason alone."""

    retriable = True


class HttpAnswerTooLong(HeadraceError):
    """The answer is longer than the caller reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An answer of any status."""

    status: int
    body: bytes
    media_type: str
    """`Content-Type` as it came; empty without one."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class HttpAddress:
    """`http://host:port/prefix` or https. Each call opens a connection of its own."""

    def __init__(self, url: str) -> None:
        """Raises ValueError for anything else."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address of an HTTP server: give http://host:port")
        self.is_tls = parts.scheme == "https"
        self.target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        """What the address itself asks for."""
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")

    def connection(self, *, within_ms: int, tls: "ssl.SSLContext | None" = None) -> http.client.HTTPConnection:
        """Return a connection that is not open yet; each wait on it is bounded. `tls`: None for the system's authorities."""
        if self.is_tls:
            return http.client.HTTPSConnection(self._host, self._port, timeout=within_ms / 1000, context=tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=within_ms / 1000)

    def call(
        self,
        method: str,
        path: str | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        within_ms: int,
        most_bytes: int = MOST_ANSWER_BYTES,
        tls: "ssl.SSLContext | None" = None,
    ) -> HttpAnswer:
        """Return the answer to a request for `path` below the address (None: for the address itself).

        Raises `NoHttpAnswer`, within about `within_ms`, and `HttpAnswerTooLong`.
        """
        deadline = time.monotonic() + within_ms / 1000
        connection = self.connection(within_ms=within_ms, tls=tls)
        try:
            target = self.target if path is None else self._prefix + path
            connection.request(method, target, body, {**(headers or {}), "Connection": "close"})
            answer = connection.getresponse()
            parts, size = [], 0
            while part := answer.read1(_PART_BYTES):
                parts.append(part)
                size += len(part)
                if size > most_bytes:
                    raise HttpAnswerTooLong(f"the answer is longer than {most_bytes} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no whole answer within {within_ms} ms")
            if answer.length:
                raise http.client.IncompleteRead(b"", answer.length)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoHttpAnswer(str(error) or type(error).__name__) from error
        finally:
            connection.close()
        return HttpAnswer(status=answer.status, body=b"".join(parts), media_type=answer.getheader("Content-Type") or "")
