"""TLS and a SASL PLAIN login in front of a broker that has neither: a real socket for clients, the broker's own bytes behind."""

import socket
import ssl
import struct
import threading
from pathlib import Path

from headrace.wire.messages import control

HANDSHAKE, API_VERSIONS, AUTHENTICATE = 17, 18, 36


class SecuredFront:
    """Answers SaslHandshake and SaslAuthenticate itself (if `users` is given) and passes every other frame on, both ways."""

    def __init__(
        self,
        broker: str,
        *,
        tls: tuple[Path, Path] | None = None,
        client_ca: Path | None = None,
        users: dict[str, str] | None = None,
        session_ms: int = 0,
        port: int = 0,
    ) -> None:
        self._broker = broker.split(":")
        self.users, self.session_ms = users, session_ms
        self.logins = 0
        self.peers: list[str] = []
        """The names in the clients' certificates, one for each connection."""
        self._context: ssl.SSLContext | None = None
        if tls is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*tls)
            if client_ca is not None:
                self._context.load_verify_locations(client_ca)
                self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.held: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for thread in self._threads:
            thread.join(10)

    def drop(self) -> None:
        """End all connections. Only the thread that serves one closes it: OpenSSL continues to read by the descriptor's number,
        which is another connection's by then.
        """
        while self.held:
            try:
                socket.socket.shutdown(self.held.pop(), socket.SHUT_RDWR)  # that of SSLSocket ends the encryption first
            except OSError:
                pass  # it has ended

    def _accept(self) -> None:
        while True:
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._threads.append(threading.Thread(target=self._serve, args=(raw,), daemon=True))
            self._threads[-1].start()

    def _serve(self, raw: socket.socket) -> None:
        client = raw
        try:
            if self._context is not None:
                client = self._context.wrap_socket(raw, server_side=True)
                subject = (client.getpeercert() or {}).get("subject", ())
                self.peers += [value for part in subject for name, value in part if name == "commonName"]
            self.held.append(client)
            with socket.create_connection((self._broker[0], int(self._broker[1]))) as behind:
                self._speak(client, behind)
        except (OSError, struct.error):
            pass
        finally:
            client.close()

    def _speak(self, client: socket.socket, behind: socket.socket) -> None:
        is_known = self.users is None
        while frame := _frame(client):
            api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
            if api_key in (HANDSHAKE, AUTHENTICATE):
                _, at = control.read_request_header(frame)
                is_good, answer = self._login(api_key, version, control.decode_request(api_key, version, memoryview(frame)[at:]))
                is_known = is_known or (is_good and api_key == AUTHENTICATE)
                head = control.write_response_header(api_key, version, correlation_id)
                client.sendall(struct.pack(">i", len(head) + len(answer)) + head + answer)
                if not is_good:
                    return
                continue
            if not is_known and api_key != API_VERSIONS:
                return
            behind.sendall(struct.pack(">i", len(frame)) + frame)
            answer = _frame(behind)
            if api_key == API_VERSIONS and self.users is not None:
                answer = _with_sasl(answer)
            client.sendall(struct.pack(">i", len(answer)) + answer)

    def _login(self, api_key: int, version: int, request: object) -> tuple[bool, bytes]:
        if api_key == HANDSHAKE:
            is_good = getattr(request, "mechanism", "") == "PLAIN"
            words: dict[str, object] = {"error_code": 0 if is_good else 33, "mechanisms": ["PLAIN"]}
            return is_good, control.encode_response(api_key, version, words)
        self.logins += 1
        _, user, password = getattr(request, "auth_bytes", b"").decode().split("\0")
        is_good = self.users is not None and self.users.get(user) == password
        words = {
            "error_code": 0 if is_good else 58,
            "error_message": None if is_good else "Authentication failed: Invalid username or password",
            "auth_bytes": b"",
            "session_lifetime_ms": self.session_ms,
        }
        return is_good, control.encode_response(api_key, version, words)


def _frame(held: socket.socket) -> bytes:
    size = held.recv(4, socket.MSG_WAITALL) if not isinstance(held, ssl.SSLSocket) else _exactly(held, 4)
    return _exactly(held, struct.unpack(">i", size)[0]) if size else b""


def _exactly(held: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (part := held.recv(size - len(found))):
        found += part
    return found


def _with_sasl(answer: bytes) -> bytes:
    """Add both APIs to an ApiVersions response of version 0."""
    code, ranges = control.decode_api_versions(0, memoryview(answer)[4:])
    assert not code
    return answer[:4] + control.encode_api_versions(0, {**ranges, HANDSHAKE: (0, 1), AUTHENTICATE: (0, 2)})
