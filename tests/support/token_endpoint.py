"""A token endpoint (RFC 6749, client credentials) on the loopback, with the public key for those who check its tokens."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

ISSUER, AUDIENCE = "https://issuer.test", "kafka"


class TokenEndpoint:
    """Answers `POST /token` and `GET /jwks`. Everything that it does wrong is set by the test."""

    def __init__(self, clients: dict[str, str]) -> None:
        """`clients`: id → secret."""
        self.clients = dict(clients)
        self.life_s = 3_600.0
        self.says_life = True
        self.fails_with: int | None = None
        self.raw_answer: bytes | None = None
        self.audience = AUDIENCE
        self.requests: list[dict[str, list[str]]] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, endpoint._jwks())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                endpoint.requests.append(parse_qs(body))
                self._answer(*endpoint._token(self.headers.get("Authorization", ""), parse_qs(body)))

            def _answer(self, status: int, words: dict[str, Any] | bytes) -> None:
                content = words if isinstance(words, bytes) else json.dumps(words).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url, self.jwks_url = f"{self.address}/token", f"{self.address}/jwks"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def token_for(self, subject: str, *, life_s: float) -> str:
        """Return a signed JWT (RS256)."""
        now = time.time()
        claims = {"iss": ISSUER, "aud": self.audience, "sub": subject, "iat": int(now) - 1, "exp": int(now + life_s)}
        signed = f"{_b64(json.dumps({'alg': 'RS256', 'kid': 'one', 'typ': 'JWT'}).encode())}.{_b64(json.dumps(claims).encode())}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_b64(signature)}"

    def _token(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any] | bytes]:
        if self.fails_with is not None:
            return self.fails_with, {"error": "temporarily_unavailable"}
        if self.raw_answer is not None:
            return 200, self.raw_answer
        kind, _, word = authorization.partition(" ")
        name, _, secret = base64.b64decode(word).decode().partition(":")
        if kind != "Basic" or name not in self.clients or self.clients[name] != secret:
            return 401, {"error": "invalid_client", "error_description": f"no client {name} with secret {secret}"}
        if form.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        life = {"expires_in": self.life_s} if self.says_life else {}
        return 200, {"access_token": self.token_for(name, life_s=self.life_s), "token_type": "Bearer", **life}

    def _jwks(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        one = {
            "kty": "RSA",
            "kid": "one",
            "use": "sig",
            "alg": "RS256",
            "n": _b64(numbers.n.to_bytes((numbers.n.bit_length() + 7) // 8, "big")),
            "e": _b64(numbers.e.to_bytes(3, "big")),
        }
        return {"keys": [one]}


def _b64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
