"""SCRAM-SHA-256 and SCRAM-SHA-512, the server's side, without channel binding. The iterations are the client's work.

Source: RFC 5802, sections 3, 5 and 7; Kafka speaks it so (KIP-84). Trap: librdkafka 2.0 sends its own nonce twice in its last
message. Kafka asks only that the nonce ends with the server's; a library that asks for equality locks those clients out."""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

from .exchange import Accepted, Challenge, Refused, Step
from .scram_credential import HASHES, ScramCredential
from .users import Users

LONGEST_MESSAGE = 4_096
NONCE_BYTES = 24
_FIRST = re.compile(r"([ny],(?:a=([^,\0]*))?,)(n=([^,\0]+),r=([!-+\--~]+)(?:,[A-Za-z][A-Za-z0-9]*=[^,\0]*)*)")
_FINAL = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([!-+\--~]+)(?:,[A-Za-z][A-Za-z0-9]*=[^,\0]*)*),p=([A-Za-z0-9+/=]+)")
_ESCAPED = re.compile("=(2C|3D)?")


class ScramExchange:
    """One login."""

    def __init__(
        self, mechanism: str, users: Users, nonce: Callable[[], str] = lambda: secrets.token_urlsafe(NONCE_BYTES)
    ) -> None:
        self._mechanism, self._hash_name = mechanism, HASHES[mechanism]
        self._users = users
        self._nonce = nonce()
        self._header = self._first_bare = self._server_first = ""
        self._credential: ScramCredential | None = None
        self.user = ""

    def take(self, message: bytes) -> Step:
        try:
            if len(message) > LONGEST_MESSAGE:
                raise ValueError(f"a message of {len(message)} bytes")
            text = message.decode()
            return self._first(text) if self._credential is None else self._final(text, self._credential)
        except ValueError as error:
            return Refused(why=str(error)[:200], user=self.user)

    def _first(self, message: str) -> Challenge:
        found = _FIRST.fullmatch(message)
        if found is None:
            raise ValueError("the client's first message is not n,,n=user,r=nonce")
        self._header, acts_as, self._first_bare, name, nonce = found.groups()
        self.user = _name(name)
        if acts_as and _name(acts_as) != self.user:
            raise ValueError("the client wants to act as another user")
        self._credential = found_one = self._users.credential(self._mechanism, self.user)
        salt = base64.b64encode(found_one.salt).decode()
        self._server_first = f"r={nonce}{self._nonce},s={salt},i={found_one.iterations}"
        return Challenge(self._server_first.encode())

    def _final(self, message: str, credential: ScramCredential) -> Accepted:
        found = _FINAL.fullmatch(message)
        if found is None:
            raise ValueError("the client's last message is not c=…,r=…,p=…")
        without_proof, binding, nonce, proof = found.groups()
        if _bytes(binding) != self._header.encode():
            raise ValueError("the client's last message has another header than its first")
        if not nonce.endswith(self._nonce):
            raise ValueError("the client's last message has another nonce: it is from another login")
        signed = ",".join((self._first_bare, self._server_first, without_proof)).encode()
        signature = hmac.digest(credential.stored_key, signed, self._hash_name)
        given = _bytes(proof)
        if len(given) != len(signature):
            raise ValueError("the client's proof has another length")
        client_key = bytes(one ^ other for one, other in zip(given, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._hash_name, client_key).digest(), credential.stored_key):
            raise ValueError("no such user, or another password")
        verifier = hmac.digest(credential.server_key, signed, self._hash_name)
        return Accepted(message=b"v=" + base64.b64encode(verifier), user=self.user)


def _name(text: str) -> str:
    """Return a name without its escapes. Raises: ValueError."""

    def plain(found: re.Match[str]) -> str:
        if found[1] is None:
            raise ValueError("the user's name has '=' without 2C or 3D behind it")
        return "," if found[1] == "2C" else "="

    return _ESCAPED.sub(plain, text)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("the client's last message is not base64") from None
