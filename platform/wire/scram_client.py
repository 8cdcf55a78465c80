"""SCRAM-SHA-256 and SCRAM-SHA-512, the client's side, without channel binding. Pure: the nonce comes from the caller.

Source: RFC 5802, sections 3 and 5; RFC 7677; Kafka speaks it so (KIP-84), with at least 4096 iterations.
"""

import base64
import hashlib
import hmac
import stringprep
import unicodedata
from collections.abc import Generator

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS = 4_096
"""RFC 7677, section 4. Fewer make the password cheap to guess for who posed as the broker."""
MOST_ITERATIONS = 1_000_000
"""About half a second's work; more would let a broker, or who poses as one, keep the client busy."""
_GS2_HEADER = "n,,"


class ScramRefused(ValueError):
    """The server's message breaks the protocol, or the server does not know the password."""


def exchange(hash_name: str, username: str, password: str, nonce: str) -> Generator[bytes, bytes, None]:
    """Yield the client's messages, and receive the server's. Ends when the server has proved that it knows the password.

    Raises `ScramRefused`. `nonce`: printable, without a comma, never used before.
    """
    first_bare = f"n={_saslname(prepared(username))},r={nonce}"
    server_first = _text((yield (_GS2_HEADER + first_bare).encode()))
    server_nonce, salt, iterations = _server_first(server_first, nonce)
    salted = hashlib.pbkdf2_hmac(hash_name, prepared(password).encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    without_proof = f"c={base64.b64encode(_GS2_HEADER.encode()).decode()},r={server_nonce}"
    signed = ",".join((first_bare, server_first, without_proof)).encode()
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    server_final = _text((yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), signed, hash_name)
    _check_server_final(server_final, expected)


def prepared(text: str) -> str:
    """Return the text as SASLprep (RFC 4013) has it. Raises `ScramRefused` for characters that it forbids."""
    if text.isascii() and text.isprintable():
        return text
    mapped = "".join(" " if stringprep.in_table_c12(one) else one for one in text if not stringprep.in_table_b1(one))
    normal = unicodedata.normalize("NFKC", mapped)
    forbidden = (
        stringprep.in_table_c12,
        stringprep.in_table_c21_c22,
        stringprep.in_table_c3,
        stringprep.in_table_c4,
        stringprep.in_table_c5,
        stringprep.in_table_c6,
        stringprep.in_table_c7,
        stringprep.in_table_c8,
        stringprep.in_table_c9,
        stringprep.in_table_a1,
    )
    if any(table(one) for one in normal for table in forbidden):
        raise ScramRefused("user name or password holds a character that SASLprep (RFC 4013) forbids")
    return normal


def _saslname(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _server_first(message: str, nonce: str) -> tuple[str, bytes, int]:
    words = message.split(",")
    if words[0].startswith("m="):
        raise ScramRefused("the server wants an extension that this client does not know")
    if len(words) < 3 or not words[0].startswith("r=") or not words[1].startswith("s=") or not words[2].startswith("i="):
        raise ScramRefused(_error_in(message) or "the server's first message is not r=…,s=…,i=…")
    server_nonce = words[0][2:]
    if not server_nonce.startswith(nonce) or len(server_nonce) == len(nonce):
        raise ScramRefused("the server's nonce does not begin with ours: the answer is from another login")
    try:
        salt = base64.b64decode(words[1][2:], validate=True)
    except ValueError:  # characters beyond ASCII are one, too
        raise ScramRefused("the server's salt is not base64") from None
    digits = words[2][2:]
    if not salt or not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        raise ScramRefused("the server's salt is empty, or its number of iterations is none")
    if not LEAST_ITERATIONS <= int(digits) <= MOST_ITERATIONS:
        raise ScramRefused(f"the server asks for {digits} iterations, outside {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
    return server_nonce, salt, int(digits)


def _check_server_final(message: str, expected: bytes) -> None:
    word = message.split(",")[0]
    if not word.startswith("v="):
        raise ScramRefused(_error_in(message) or "the server's last message is not v=…")
    try:
        signature = base64.b64decode(word[2:], validate=True)
    except ValueError:  # characters beyond ASCII are one, too
        raise ScramRefused("the server's signature is not base64") from None
    if not hmac.compare_digest(signature, expected):
        raise ScramRefused("the server's signature is wrong: it does not know the password, so it is not the broker it poses as")


def _error_in(message: str) -> str | None:
    word = message.split(",")[0]
    return f"the server says {word[2:80]!r}" if word.startswith("e=") else None


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramRefused("the server's message is not UTF-8") from None
