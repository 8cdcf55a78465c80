"""A TLS connection with a socket's methods, as far as `connection` uses them: one thread reads and writes, any may `shutdown`.

`ssl.SSLSocket` is not used: its `shutdown` forgets the encryption first, so that a write of another thread can go out in the
clear just then. Here encryption is apart from the socket: what another thread closes is only the socket.
"""

import select
import socket
import ssl
import time

_READ_BYTES = 256 << 10
_WRITE_BYTES = 256 << 10
"""Encrypted at once; each is a copy in memory."""


class TlsSocket:
    """Encrypts what goes through a connected socket. After `handshake` the peer is whom its certificate names."""

    def __init__(self, raw: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._raw = raw
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._timeout_s: float | None = None

    def handshake(self, timeout_s: float) -> None:
        """Raises ssl.SSLError (certificates, no TLS), TimeoutError, OSError."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._tls.do_handshake()
                self._flush(deadline)
                return
            except ssl.SSLWantReadError:
                self._flush(deadline)
                self._fill(deadline)
            except ssl.SSLError:
                self._tell_why()
                raise

    def settimeout(self, timeout_s: float) -> None:
        """Set how long each later call may take as a whole."""
        self._timeout_s = timeout_s

    def fileno(self) -> int:
        return self._raw.fileno()

    def sendall(self, content: bytes | memoryview) -> None:
        deadline = self._deadline()
        view = memoryview(content)
        for at in range(0, len(view), _WRITE_BYTES):
            part = view[at : at + _WRITE_BYTES]
            while len(part):
                part = part[self._tls.write(part) :]
            self._flush(deadline)

    def recv_into(self, view: memoryview) -> int:
        """Return how many bytes came; 0 when the peer has ended the connection. Raises TimeoutError, OSError."""
        deadline = self._deadline()
        while True:
            try:
                return self._tls.read(len(view), view)  # type: ignore[return-value]  # typeshed does not know the second form
            except ssl.SSLWantReadError:
                self._flush(deadline)
                self._fill(deadline)
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return 0

    def has_news(self) -> bool:
        """Return whether the peer sent data, or the end, unasked. What TLS itself sends (session tickets, new
        keys) is none.
        """
        try:
            while _is_readable(self._raw):
                self._raw.settimeout(0)
                received = self._raw.recv(_READ_BYTES)
                if not received:
                    return True
                self._incoming.write(received)
            if not self._incoming.pending and not self._tls.pending():
                return False
            self._tls.read(1)
            return True
        except ssl.SSLWantReadError:
            self._flush(time.monotonic() + 1)
            return False
        except (OSError, ValueError):
            return True

    def shutdown(self, how: int) -> None:
        self._raw.shutdown(how)

    def close(self) -> None:
        """Close the socket; any thread may. No `close_notify` is sent: the protocol's frames say where they end."""
        self._raw.close()

    def _deadline(self) -> float | None:
        return None if self._timeout_s is None else time.monotonic() + self._timeout_s

    def _flush(self, deadline: float | None) -> None:
        if self._outgoing.pending:
            self._raw.settimeout(_left(deadline))
            self._raw.sendall(self._outgoing.read())

    def _fill(self, deadline: float | None) -> None:
        self._raw.settimeout(_left(deadline))
        received = self._raw.recv(_READ_BYTES)
        if received:
            self._incoming.write(received)
        else:
            self._incoming.write_eof()

    def _tell_why(self) -> None:
        """Send the alert that the failed handshake has left."""
        try:
            self._flush(time.monotonic() + 1)
        except OSError:
            pass


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _is_readable(raw: socket.socket) -> bool:
    poll = select.poll()
    poll.register(raw, select.POLLIN)
    return bool(poll.poll(0))
