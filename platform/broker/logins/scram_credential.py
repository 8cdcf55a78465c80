"""What is kept of a password for SCRAM: Kafka's text format, and how it is made. Pure.

Source: RFC 5802, section 3; Kafka's `ScramCredentialUtils`: `salt=…,stored_key=…,server_key=…,iterations=…`, base64."""

import base64
import binascii
import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ...wire.scram_client import HASHES as HASHES

NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The mechanisms' numbers on the wire (KIP-554)."""
MECHANISMS = {number: name for name, number in NUMBERS.items()}
LEAST_ITERATIONS, MOST_ITERATIONS = 4_096, 16_384
"""Kafka's own bounds for what its tools give."""
LONGEST_TEXT = 1_000
LEAST_SALT_BYTES, MOST_SALT_BYTES = 12, 256


class BadCredential(ValueError):
    """A stored credential cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a broker knows of a user's password for one mechanism. A login cannot be made of it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, ***)"

    def to_text(self) -> str:
        """Return Kafka's text."""
        salt, stored, server = (base64.b64encode(one).decode() for one in (self.salt, self.stored_key, self.server_key))
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    @staticmethod
    def of_text(mechanism: str, text: str) -> "ScramCredential":
        """Return what Kafka's text says. Raises: BadCredential."""
        words = dict(one.strip().partition("=")[::2] for one in text[:LONGEST_TEXT].split(","))
        try:
            salt, stored, server = (base64.b64decode(words[name], validate=True) for name in ("salt", "stored_key", "server_key"))
            iterations = int(words["iterations"]) if len(words["iterations"]) < 10 else 0
        except (KeyError, ValueError, binascii.Error) as error:
            raise BadCredential(f"salt, stored_key, server_key and iterations are expected: {type(error).__name__}") from None
        size = hashlib.new(HASHES[mechanism]).digest_size
        if len(stored) != size or len(server) != size or iterations < LEAST_ITERATIONS:
            raise BadCredential(f"{mechanism} has keys of {size} bytes and at least {LEAST_ITERATIONS} iterations")
        if not LEAST_SALT_BYTES <= len(salt) <= MOST_SALT_BYTES:
            raise BadCredential(f"a salt has {LEAST_SALT_BYTES} to {MOST_SALT_BYTES} bytes")
        return ScramCredential(salt=salt, stored_key=stored, server_key=server, iterations=iterations)

    @staticmethod
    def of_salted(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> "ScramCredential":
        """Return the credential of a password that was salted already."""
        hash_name = HASHES[mechanism]
        client_key = hmac.digest(salted_password, b"Client Key", hash_name)
        return ScramCredential(
            salt=salt,
            stored_key=hashlib.new(hash_name, client_key).digest(),
            server_key=hmac.digest(salted_password, b"Server Key", hash_name),
            iterations=iterations,
        )

    @staticmethod
    def of_password(mechanism: str, password: str, salt: bytes, iterations: int) -> "ScramCredential":
        """Return the credential of a password. Takes milliseconds."""
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
        return ScramCredential.of_salted(mechanism, salted, salt, iterations)

    def fits(self, mechanism: str, password: str) -> bool:
        """Return whether it is this password. Takes milliseconds, always as many for the same iterations."""
        made = ScramCredential.of_password(mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(made.stored_key, self.stored_key)


def typical(credentials: Iterable[ScramCredential]) -> tuple[int, int]:
    """Return the most frequent length of a salt, and number of iterations."""
    counted = Counter((len(one.salt), one.iterations) for one in credentials)
    return counted.most_common(1)[0][0] if counted else (16, LEAST_ITERATIONS)


def imagined(secret: bytes, mechanism: str, user: str, like: tuple[int, int]) -> ScramCredential:
    """Return the credential of a user that does not exist. It is the same each time and on each broker that has the secret, so
    that an answer does not say which users there are. No password fits it.
    """
    salt_bytes, iterations = like
    hash_name = HASHES[mechanism]
    size = hashlib.new(hash_name).digest_size
    made = hashlib.pbkdf2_hmac("sha256", secret, f"{mechanism}\0{user}".encode(), 1, salt_bytes + 2 * size)
    return ScramCredential(
        salt=made[:salt_bytes],
        stored_key=made[salt_bytes : salt_bytes + size],
        server_key=made[salt_bytes + size :],
        iterations=iterations,
    )
