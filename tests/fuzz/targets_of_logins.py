"""Targets for what a client says of who it is, and for what a server says to a client. None takes what is not proved.

Bytes choose a mechanism and, with each other byte, what is altered in a good login; so a search reaches behind the first check.
"""

import base64
import hashlib
import hmac
import json
import random
from collections.abc import Callable
from typing import Any, cast

from joserfc import jwk, jws

from headrace.broker.logins.exchange import Accepted, Challenge, Refused
from headrace.broker.logins.oauth_exchange import OAuthExchange
from headrace.broker.logins.oauth_keys import Keys
from headrace.broker.logins.oauth_token import keys_of
from headrace.broker.logins.plain_exchange import PlainExchange
from headrace.broker.logins.scram_credential import HASHES, BadCredential, ScramCredential
from headrace.broker.logins.scram_exchange import ScramExchange
from headrace.broker.logins.users import Users
from headrace.broker.settings.login_settings import OAuthSettings
from headrace.wire import scram_client

from .login_messages import altered

USER, PASSWORD = "user", "pencil"
SALT = bytes(range(16))
CREDENTIALS = {one: ScramCredential.of_password(one, PASSWORD, SALT, 4_096) for one in HASHES}
NOW_MS = 1_800_000_000_000
SETTINGS = OAuthSettings(
    jwks_url="https://issuer.test/jwks",
    jwks_ca=None,
    issuer="https://issuer.test",
    audience="kafka",
    algorithms=("RS256", "ES256"),
    skew_ms=0,
    refresh_ms=1,
)
KEY = jwk.ECKey.generate_key("P-256", {"kid": "one"})
_KEYS = keys_of(json.dumps({"keys": [KEY.as_dict(private=False)]}).encode())


class _Users:
    """The one user, in memory."""

    def secret(self) -> bytes:
        return b"secret"

    def list(self) -> list[str]:
        return [USER]

    def read_each(self, users: object) -> dict[str, dict[str, str]]:
        return {USER: {name: one.to_text() for name, one in CREDENTIALS.items()}}

    def change(self, user: str, change: object) -> None:
        raise AssertionError("a login changes no user")


class _Keys:
    """The issuer's one key."""

    def present(self, *, again: bool = False) -> Any:
        return _KEYS


def _users() -> Users:
    users = Users(_Users(), cast(Any, None), lambda after_ms, call: None)
    users.load()
    return users


USERS = _users()


def scram_server(data: bytes) -> None:
    """A client's two messages, each altered maybe: whom the server takes has proved that it knows the password."""
    chance = random.Random(data)
    mechanism = chance.choice(list(HASHES))
    server = ScramExchange(mechanism, USERS, lambda: "server-nonce")
    client = scram_client.exchange(HASHES[mechanism], USER, PASSWORD, "client-nonce")
    first = next(client)
    if chance.random() < 0.3:
        first = chance.choice((b"n,a=user,", b"y,,", b"n,a=alice,")) + first[3:]
    first = _maybe(chance, first, data)
    step = server.take(first)
    assert isinstance(step, Challenge | Refused), "one message is no login"
    if isinstance(step, Refused):
        return
    assert len(step.message) < 5_000
    try:
        final = client.send(step.message)
    except scram_client.ScramRefused:
        final = b"c=biws,r=client-nonceserver-nonce,p=AAAA"
    if chance.random() < 0.4:
        # One who knows the password signs whatever it likes: another header or nonce, or what was signed in another login.
        binding = base64.b64encode(_header(first.decode()).encode())
        without_proof = _maybe(chance, final.rpartition(b",p=")[0], data).decode(errors="replace")
        if chance.random() < 0.5:
            without_proof = f"c={binding.decode()},{without_proof.partition(',')[2]}"
        proof = _proof(mechanism, first.decode(), step.message.decode(), without_proof)
        final = f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    else:
        final = _maybe(chance, final, data)
    last = server.take(final)
    assert isinstance(last, Accepted | Refused)
    if isinstance(last, Accepted):
        assert last.user == USER
        assert _header(first.decode())[2:] in (",", f"a={USER},"), "it acts as another user"
        assert _is_proved(mechanism, first.decode(), step.message.decode(), final.decode()), (first, final)


def _proof(mechanism: str, first: str, challenge: str, without_proof: str) -> bytes:
    """Return the proof of who knows the password (RFC 5802, section 3)."""
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, PASSWORD.encode(), SALT, 4_096)
    client_key = hmac.digest(salted, b"Client Key", name)
    signed = f"{first[len(_header(first)) :]},{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
    return bytes(one ^ other for one, other in zip(client_key, signature, strict=True))


def _header(first: str) -> str:
    return ",".join(first.split(",")[:2]) + ","


def _is_proved(mechanism: str, first: str, challenge: str, final: str) -> bool:
    """Return whether the last message proves the password, in this login and with the header of the first."""
    without_proof, _, proof = final.rpartition(",p=")
    words = dict(word.partition("=")[::2] for word in reversed(without_proof.split(",")))
    is_bound = base64.b64decode(words["c"]) == _header(first).encode()
    is_of_this_login = words["r"].endswith("server-nonce")
    return base64.b64decode(proof) == _proof(mechanism, first, challenge, without_proof) and is_bound and is_of_this_login


def scram_client_side(data: bytes) -> None:
    """A server's two messages, each altered maybe: the client ends without an error only when the server knows the password."""
    chance = random.Random(data)
    mechanism = chance.choice(list(HASHES))
    server = ScramExchange(mechanism, USERS, lambda: "server-nonce")
    client = scram_client.exchange(HASHES[mechanism], USER, PASSWORD, "client-nonce")
    challenge = server.take(next(client))
    assert isinstance(challenge, Challenge)
    said = _maybe(chance, challenge.message, data)
    iterations = [word[2:] for word in said.decode(errors="replace").split(",") if word.startswith("i=")]
    if any(word.isdigit() and 4_096 < int(word) <= scram_client.MOST_ITERATIONS for word in iterations):
        return  # allowed, and half a second's work at the most
    try:
        final = client.send(said)
        last = server.take(final)
        verifier = last.message if isinstance(last, Accepted) else b"v=" + base64.b64encode(bytes(32))
        answer = _maybe(chance, verifier, data)
        client.send(answer)
    except scram_client.ScramRefused:
        return
    except StopIteration:
        given, proved = (base64.b64decode(one.split(b",")[0][2:]) for one in (answer, verifier))
        assert isinstance(last, Accepted)
        assert given == proved, "a server that does not know the password is trusted"
        return
    raise AssertionError("the client wants a third message")


def plain_message(data: bytes) -> None:
    chance = random.Random(data)
    message = _maybe(chance, f"\0{USER}\0{PASSWORD}".encode(), data)
    exchange = PlainExchange(USERS)
    step: Any = exchange.take(message)
    if callable(step):
        acts_as, user, password = message.decode().split("\0")
        step = step()
        is_right = (user, password) == (USER, PASSWORD) and acts_as in ("", USER)
        assert isinstance(step, Accepted) == is_right, message
    assert isinstance(step, Accepted | Refused)


def oauth_message(data: bytes) -> None:
    """A client's first message, or its token, altered maybe: only the token of the issuer is taken, as it was signed."""
    chance = random.Random(data)
    subject = chance.choice((USER, USER, "", "a\nb", "x" * 250, "\u202e", 7, [USER]))
    claims = {"iss": SETTINGS.issuer, "aud": "kafka", "sub": subject, "exp": NOW_MS // 1_000 + chance.choice((60, 60, 0, -60))}
    are_altered = chance.random() < 0.3
    token = _token(_maybe(chance, json.dumps(claims).encode(), data) if are_altered else claims).encode()
    if chance.random() < 0.4:
        token = _maybe(chance, token, data)
    message = b"n,,\x01auth=Bearer " + token + b"\x01\x01"
    if chance.random() < 0.4:
        message = _maybe(chance, message, data)
    exchange = OAuthExchange(SETTINGS, cast(Keys, _Keys()), lambda: NOW_MS)
    step: Any = exchange.take(message)
    if callable(step):
        step = step()
    match step:
        case Accepted():
            assert 0 < len(step.user) <= 249
            assert step.user.isprintable()
            assert step.user == subject or are_altered, "a token is taken that the issuer did not sign"
            assert step.expires_ms is not None
            assert step.expires_ms > NOW_MS
        case Challenge():
            assert isinstance(exchange.take(b"\x01"), Refused)
        case _:
            assert isinstance(step, Refused)


def _token(claims: dict[str, Any] | bytes) -> str:
    payload = claims if isinstance(claims, bytes) else json.dumps(claims)
    return jws.serialize_compact({"alg": "ES256", "kid": "one", "typ": "JWT"}, payload, KEY)


def stored_credential(data: bytes) -> None:
    """Kafka's text of a credential: what is read is written back as it was read."""
    chance = random.Random(data)
    for mechanism, credential in CREDENTIALS.items():
        text = _maybe(chance, credential.to_text().encode(), data).decode(errors="replace")
        try:
            found = ScramCredential.of_text(mechanism, text)
        except BadCredential:
            continue
        assert ScramCredential.of_text(mechanism, found.to_text()) == found


def _maybe(chance: random.Random, message: bytes, data: bytes) -> bytes:
    """Return the message as it is, altered, or the search's own bytes."""
    match chance.randrange(4):
        case 0:
            return message
        case 1 if data:
            return data[1:]
        case _:
            return altered(chance, message)


TARGETS: tuple[Callable[[bytes], None], ...] = (
    scram_server,
    scram_client_side,
    plain_message,
    oauth_message,
    stored_credential,
)
