"""TLS handshakes, on a thread of their own with a loop of its own, so that a storm of reconnects does not delay open connections.

OpenSSL calculates without Python's lock. Each handshake has a deadline; the server bounds their number. This thread also looks
for changed certificate files."""

import errno
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from select import EPOLLIN, EPOLLOUT

from ..event_loop.loop import Loop
from .peer import Peer
from .principal import ANONYMOUS, Principal
from .tls_context import ServerTls
from .tls_stream import TlsStream

LOOK_EVERY_MS = 500
"""How often it looks for late handshakes and changed files."""

Done = Callable[[TlsStream, Principal], None]
"""Gets whose certificate the client showed; ANONYMOUS without one."""
Failed = Callable[[str], None]


class Handshakes:
    """Any thread may call `begin`; `done` and `failed` are called on this object's thread."""

    def __init__(self, tls: Mapping[str, ServerTls], raw: memoryview, *, within_ms: int) -> None:
        """`tls`: by the listener's name. `raw`: what the streams read encrypted bytes into when their handshake has ended."""
        self._tls = tls
        self._raw = raw
        self._within_ms = within_ms
        self._loop = Loop()
        self._thread = threading.Thread(target=self._loop.run, name="broker-handshakes", daemon=True)
        self._open: dict[_Handshake, int] = {}
        """With their deadlines (monotonic ms), the earliest first."""

    def start(self) -> None:
        self._loop.call_at(0, self._look)
        self._thread.start()

    def stop(self) -> None:
        """Close the connections whose handshake has not ended, and end the thread."""
        if self._thread.is_alive():
            self._loop.post(self._close_all)
            self._loop.stop()
            self._thread.join(10)
        self._loop.close()

    def begin(self, accepted: socket.socket, peer: Peer, done: Done, failed: Failed) -> None:
        """Begin one. `accepted` must not block. `failed` gets the reason, after the socket was closed. A peer with a guard logs
        in: its certificate, if its listener asks for one, does not name it.
        """
        self._loop.post(lambda: self._begin(accepted, peer, done, failed))

    def _begin(self, accepted: socket.socket, peer: Peer, done: Done, failed: Failed) -> None:
        logs_in = peer.guard is not None
        tls = self._tls[peer.listener]

        def connected(stream: TlsStream) -> None:
            try:
                certificate = None if logs_in else stream.certificate
                principal = ANONYMOUS if certificate is None else self._principal_of(certificate, tls)
            except ValueError as error:
                stream.close()
                failed(str(error))
            else:
                done(stream, principal)

        handshake = _Handshake(self._loop, TlsStream(accepted, tls.context, self._raw), connected, failed, self._ended)
        self._open[handshake] = self._loop.now_ms + self._within_ms
        handshake.start()

    def _principal_of(self, certificate: bytes, tls: ServerTls) -> Principal:
        # Here, so that a broker that asks for no certificates does not load what reads them.
        from .distinguished_name import principal_of

        return principal_of(certificate, tls.principal_rules)

    def _ended(self, handshake: "_Handshake") -> None:
        self._open.pop(handshake, None)

    def _look(self) -> None:
        now_ms = self._loop.now_ms
        self._loop.call_at(now_ms + LOOK_EVERY_MS, self._look)
        for one in self._tls.values():
            one.refresh()
        for handshake in [one for one, deadline_ms in self._open.items() if deadline_ms <= now_ms]:
            handshake.fail(f"the handshake did not end within {self._within_ms} ms")

    def _close_all(self) -> None:
        for handshake in list(self._open):
            handshake.fail("the broker stops")


class _Handshake:
    """One handshake. Owns the socket until `done`."""

    def __init__(
        self,
        loop: Loop,
        stream: TlsStream,
        done: Callable[[TlsStream], None],
        failed: Failed,
        ended: "Callable[[_Handshake], None]",
    ) -> None:
        self._loop = loop
        self._stream = stream
        self._done = done
        self._failed = failed
        self._ended = ended
        self._fd = stream.fileno()
        self._mask = EPOLLIN
        self._is_over = False

    def start(self) -> None:
        self._loop.register(self._fd, self._mask, self._on_event)

    def fail(self, why: str) -> None:
        """Close the connection, unless the handshake is over."""
        if not self._is_over:
            self._finish()
            self._stream.close()
            self._failed(why)

    def _on_event(self, mask: int) -> None:
        if self._is_over:
            return
        try:
            has_ended = self._stream.handshake()
        except OSError as error:
            self.fail(_reason(error))
            return
        if has_ended:
            self._finish()
            self._done(self._stream)
        else:
            self._watch(EPOLLOUT if self._stream.has_unsent else EPOLLIN)

    def _watch(self, mask: int) -> None:
        if mask != self._mask:
            self._mask = mask
            self._loop.modify(self._fd, mask)

    def _finish(self) -> None:
        self._is_over = True
        self._loop.unregister(self._fd)
        self._ended(self)


_REASONS = {
    "HTTP_REQUEST": "the client speaks HTTP",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS: set security.protocol=SSL in it",
    "RECORD_LAYER_FAILURE": "the client does not speak TLS: set security.protocol=SSL in it",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate (ssl.client.auth=required)",
    "UNSUPPORTED_PROTOCOL": "the client offers only TLS versions that ssl.enabled.protocols leaves out",
    "NO_SHARED_CIPHER": "the client and this broker have no cipher in common",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the CA of this broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refuses this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refuses this broker's certificate",
}


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(error.reason or "", str(error))
    if error.errno in (errno.ECONNRESET, errno.EPIPE):
        return "the client closed the connection during the handshake"
    return str(error)
