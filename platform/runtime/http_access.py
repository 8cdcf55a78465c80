"""Who may use an HTTP service of ours: everyone on the loopback; from elsewhere only who has the token, or a certificate.

The token is the first line of a file, compared in constant time. `/healthz` and `/readyz` stay open: load balancers and
supervisors ask them, and they tell no data. Sources: RFC 6750 (bearer tokens), RFC 7617 (basic authentication).
"""

import base64
import hashlib
import hmac
import ipaddress
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import HeadraceError

OPEN_PATHS = ("/healthz", "/readyz")
SHORTEST_TOKEN = 16
CHALLENGE = 'Bearer realm="headrace"'
CHALLENGE_OF_PAGES = f'Basic realm="headrace", charset="UTF-8", {CHALLENGE}'
"""Browsers ask their user for a name and a password; they send no bearer token by themselves."""
UNAUTHORIZED = "a bearer token is wanted: send the header `Authorization: Bearer …` with the token of this service"
IN_A_BROWSER = "; in a browser, log in with any name, and with the token as the password"


class Unprotected(HeadraceError):
    """A service would serve everyone who reaches it, or the file that protects it cannot be used."""


class NotAdmitted(Exception):
    """A caller did not prove who it is. It has no words: a caller learns nothing from them."""


class Refused(Exception):
    """A caller has no right to what it asks for; the words say which right."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the address. A name other than localhost counts as reached by others."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class BearerToken:
    """The token in a file; a changed file is read again. Any thread may call."""

    def __init__(self, path: Path, *, is_password: bool = False) -> None:
        """`is_password`: it is taken as the password of HTTP basic authentication, too, with any name. Raises `Unprotected`."""
        self._path = path
        self._is_password = is_password
        self._lock = threading.Lock()
        self._seen = _facts(path)
        self._digest = _digest_in(path)

    def admits(self, authorization: str | None) -> bool:
        """Return whether the value of the header `Authorization` holds the token."""
        kind, _, word = (authorization or "").partition(" ")
        kind, given = kind.lower(), word.strip().encode("utf-8", "surrogateescape")
        if self._is_password and kind == "basic":
            given = _password_in(given)
        elif kind != "bearer":
            given = b""
        return hmac.compare_digest(hashlib.sha256(given).digest(), self._present())

    @property
    def challenge(self) -> str:
        """Return the value of the header `WWW-Authenticate` of a refusal."""
        return CHALLENGE_OF_PAGES if self._is_password else CHALLENGE

    @property
    def refusal(self) -> str:
        """Return what one is told who sent no token, or a wrong one."""
        return f"{UNAUTHORIZED}{IN_A_BROWSER if self._is_password else ''}"

    def _present(self) -> bytes:
        with self._lock:
            now = _facts(self._path)
            if now != self._seen:
                try:
                    self._digest, self._seen = _digest_in(self._path), now
                except Unprotected:
                    pass  # half written, or gone: the last one stays valid, and no request is accepted without a token
            return self._digest


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAccess:
    """How a service is protected. Nothing given: only the loopback may be served."""

    token_file: Path | None = None
    certificate: Path | None = None
    """With `key`: the service speaks HTTPS."""
    key: Path | None = None
    client_authorities: Path | None = None
    """Clients without a certificate that one of these CAs signed are refused (mTLS)."""
    logins: bool = False
    """Clients log in as users of the cluster, and may do what its access rules allow."""

    @property
    def asks_who(self) -> bool:
        return self.token_file is not None or self.client_authorities is not None or self.logins

    def check(self, host: str, *, how: str) -> None:
        """Raise `Unprotected` unless this may serve on `host`. `how`: the flags or settings that would protect it."""
        if (self.certificate is None) != (self.key is None):
            raise Unprotected("the service's certificate and its key belong together: give both or none")
        if self.client_authorities is not None and self.certificate is None:
            raise Unprotected(
                "clients can only be asked for a certificate over HTTPS: give the service's certificate and key too"
            )
        if self.logins and self.token_file is not None:
            raise Unprotected("clients log in (--logins), or have the service's token (--token-file): give one of them")
        if self.logins and self.certificate is None and not is_loopback(host):
            raise Unprotected(
                f"refused to take logins on {host} in the clear: passwords need HTTPS; give a certificate and its key"
            )
        for path in (self.certificate, self.key, self.client_authorities):
            if path is not None and not os.access(path, os.R_OK):
                raise Unprotected(f"{path} cannot be read: check the path and its rights")
        if not is_loopback(host) and not self.asks_who:
            raise Unprotected(
                f"refused to listen on {host}: other machines reach it, and there is no authentication; "
                f"listen on the loopback, or give {how}"
            )

    def token(self, *, is_password: bool = False) -> BearerToken | None:
        """Return the token that is asked for. Raises `Unprotected`."""
        return None if self.token_file is None else BearerToken(self.token_file, is_password=is_password)


def is_open(path: str, open_paths: Iterable[str] = OPEN_PATHS) -> bool:
    """Return whether the path is served without a token."""
    return path in open_paths


def _password_in(given: bytes) -> bytes:
    """Return the password of `name:password` in base 64; empty for anything else."""
    try:
        return base64.b64decode(given, validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _digest_in(path: Path) -> bytes:
    try:
        with path.open(encoding="utf-8") as file:
            token = file.readline(4_096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unprotected(f"token file {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise Unprotected(
            f"token file {path}: its first line is not a token of at least {SHORTEST_TOKEN} printable characters: "
            "make one with `openssl rand -hex 32`"
        )
    return hashlib.sha256(token.encode()).digest()


def _facts(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ino, facts.st_size
