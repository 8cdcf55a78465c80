"""One connection of a syslog section: in the clear (RFC 6587), or over TLS (RFC 5425).

Never waits: a handshake continues with each piece that the client sends, and has its time in all, so that who does not finish his
holds up nobody else.
"""

import selectors
import socket
import ssl
from contextlib import suppress

from .syslog_framing import Framed, SyslogFraming

_READ_BYTES = 65_536


class HandshakeFailed(Exception):
    """The client does not speak TLS, or has no certificate, or an untrusted one."""


class SyslogConnection:
    """Owns its socket, which does not block."""

    def __init__(
        self, raw: socket.socket, peer: str | None, *, limit_bytes: int, now_ms: int, tls: ssl.SSLContext | None = None
    ) -> None:
        """Raises OSError for a client that is gone already; the socket is closed then."""
        raw.setblocking(False)
        self.socket = raw if tls is None else tls.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
        self.peer = peer
        self.transport = "tcp" if tls is None else "tls"
        self.is_shaking_hands = tls is not None
        self.began_ms = now_ms
        self.heard_ms = now_ms
        """When the last bytes came."""
        self.waits_for = selectors.EVENT_READ
        """What the next step of the handshake needs; messages are only read."""
        self._framing = SyslogFraming(limit_bytes)

    @property
    def is_broken(self) -> bool:
        """True when nothing that follows can be distinguished."""
        return self._framing.is_broken

    def shake_hands(self, now_ms: int) -> None:
        """Go on with the handshake as far as it goes now. Raises HandshakeFailed."""
        assert isinstance(self.socket, ssl.SSLSocket)
        self.heard_ms = now_ms
        try:
            self.socket.do_handshake()
            self.is_shaking_hands = False
            self.waits_for = selectors.EVENT_READ
        except ssl.SSLWantReadError:
            self.waits_for = selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            self.waits_for = selectors.EVENT_WRITE
        except ssl.SSLError as error:
            raise HandshakeFailed((error.reason or str(error)).replace("_", " ").lower()) from None
        except (OSError, ValueError) as error:
            raise HandshakeFailed(getattr(error, "strerror", None) or str(error)) from None

    def read(self, now_ms: int) -> list[Framed] | None:
        """Return the messages that are whole now, of one read; None at the connection's end."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except (ssl.SSLWantReadError, BlockingIOError, InterruptedError):
            return []
        except OSError:
            # Also a client of TLS that just went, and one that does not read what TLS itself has to say.
            return None
        if not data:
            return None
        self.heard_ms = now_ms
        return self._framing.feed(data)

    def end(self) -> list[Framed]:
        """Close the connection; return what stood behind the last message's end."""
        if isinstance(self.socket, ssl.SSLSocket) and not self.is_shaking_hands:
            with suppress(OSError, ValueError):
                self.socket.unwrap()
        self.socket.close()
        return self._framing.end()
