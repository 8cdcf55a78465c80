"""An ASGI application served by uvicorn on a thread of its own. The composition root keeps the signals."""

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Sequence
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from ..errors import HeadraceError
from .http_access import HttpAccess, Unprotected
from .serving.bounded_protocol import HEAD_BYTES, REQUEST_S, bounded_protocol, quiet_log
from .serving.guard import Guarded, Logins
from .serving.request_rules import allowed_hosts

KEEP_ALIVE_S = 60
"""How long a connection may stay open without a request."""
HOW_TO_PROTECT = (
    "--token-file FILE (clients send it as a bearer token), --tls-cert, --tls-key and --tls-client-ca (mTLS), or --tls-cert, "
    "--tls-key and --logins (users of the cluster)"
)
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
        self,
        app: ASGIApp,
        listener: socket.socket,
        *,
        name: str,
        most_requests: int | None = None,
        drain_s: int = 5,
        access: HttpAccess | None = None,
        own_names: Sequence[str] = (),
        is_for_browsers: bool = False,
        logins: Logins | None = None,
    ) -> None:
        """Requests beyond `most_requests` at once get 503. `stop` waits `drain_s` for the requests under way. `own_names`: by
        which clients reach the server, besides addresses, this machine's name and names without a dot. `is_for_browsers`: the
        token is a password, too. Only for services in which a page of another origin can order nothing: a browser adds a
        password to such requests by itself.

        `logins` admits callers and knows their rights.

        Raises Unprotected when the listener is not on the loopback and `access` does not protect it, or is of no use.
        """
        access = access or HttpAccess()
        access.check(listener.getsockname()[0], how=HOW_TO_PROTECT)
        allowed = allowed_hosts(os.environ, *own_names)
        token = access.token(is_password=is_for_browsers)
        app = Guarded(app, allowed=allowed, token=token, most_requests=most_requests, logins=logins)
        quiet_log()
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
                http=bounded_protocol(),
                ws="none",
                h11_max_incomplete_event_size=HEAD_BYTES,
                ssl_certfile=access.certificate,
                ssl_keyfile=access.key,
                ssl_ca_certs=None if access.client_authorities is None else str(access.client_authorities),
                ssl_cert_reqs=ssl.CERT_NONE if access.client_authorities is None else ssl.CERT_REQUIRED,
            )
        )
        try:
            self._server.config.load()
        except (ssl.SSLError, OSError, ValueError) as error:
            raise Unprotected(f"certificate {access.certificate}, key {access.key}: cannot be used: {error}") from None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._loop) as runner:
            runner.run(self._server.serve([self._listener]))

    def _loop(self) -> asyncio.AbstractEventLoop:
        loop = (self._server.config.get_loop_factory() or asyncio.new_event_loop)()
        if self._server.config.is_ssl:
            # uvicorn has no setting for it; asyncio waits a minute for a handshake, and the protocol starts after it.
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=REQUEST_S)  # type: ignore[method-assign]
        return loop

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
