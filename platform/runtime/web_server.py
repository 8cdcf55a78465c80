"""An ASGI application served by uvicorn on a thread of its own. The composition root keeps the signals."""

import socket
import threading

import uvicorn
from starlette.types import ASGIApp

from ..errors import HeadraceError

KEEP_ALIVE_S = 60
"""How long a connection may stay open without a request."""
STARTED_MS = 10_000
STOPPED_MS = 10_000
"""How long `stop` waits for the thread's end, after the drain."""


class AddressTaken(HeadraceError):
    """The address cannot be used."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        self.host = host
        self.port = port
        super().__init__(f"cannot listen on {host}:{port}: {reason}: stop what uses the port, or give --port another one")


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the address (port 0: any free one) and does not listen yet. Raises AddressTaken.

    Until the server runs, a probe is refused, and no request waits in a queue.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise AddressTaken(host, port, getattr(error, "strerror", None) or str(error)) from error
    return listener


class WebServer:
    """One application on one bound socket. `stop` closes the socket."""

    def __init__(
        self, app: ASGIApp, listener: socket.socket, *, name: str, most_requests: int | None = None, drain_s: int = 5
    ) -> None:
        """Requests beyond `most_requests` at once get 503. `stop` waits `drain_s` for the requests under way."""
        self._listener = listener
        self._drain_s = drain_s
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=drain_s,
                timeout_keep_alive=KEEP_ALIVE_S,
                limit_concurrency=most_requests,
            )
        )
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, name=name, daemon=True)

    @property
    def is_serving(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the server and return when it answers requests. Raises AddressTaken when it does not start."""
        self._thread.start()
        waited = threading.Event()
        for _ in range(STARTED_MS // 20):
            if self._server.started:
                return
            if not self._thread.is_alive():
                break
            waited.wait(0.02)
        host, port = self._listener.getsockname()[:2]
        raise AddressTaken(host, port, "the HTTP server did not start, see the log above")

    def stop(self) -> None:
        """Finish the requests under way, then end. A second call does nothing."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout=self._drain_s + STOPPED_MS / 1000)
        self._listener.close()
