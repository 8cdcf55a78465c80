"""Many TLS clients that connect at once, on one thread."""

import selectors
import socket
import ssl
from collections.abc import Iterable

SILENT_S = 60.0
"""The server must answer some handshake within this time."""


def shake_hands(trust: ssl.SSLContext, connected: Iterable[socket.socket]) -> list[ssl.SSLSocket]:
    """Begin a handshake on each connection as it comes, and return the streams when all handshakes have ended, in that order.

    Raises ssl.SSLError or OSError where one fails, TimeoutError where none goes forward.
    """
    done: list[ssl.SSLSocket] = []
    count = 0
    with selectors.DefaultSelector() as waiting:
        for raw in connected:
            one = trust.wrap_socket(raw, server_hostname="localhost", do_handshake_on_connect=False)
            one.setblocking(False)
            waiting.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE)
            count += 1
        while len(done) < count:
            ready = waiting.select(SILENT_S)
            if not ready:
                raise TimeoutError(f"{count - len(done)} of {count} handshakes do not end")
            for key, _ in ready:
                one = key.fileobj  # type: ignore[assignment]
                assert isinstance(one, ssl.SSLSocket)
                try:
                    one.do_handshake()
                except ssl.SSLWantReadError:
                    waiting.modify(one, selectors.EVENT_READ)
                else:
                    waiting.unregister(one)
                    done.append(one)
    return done
