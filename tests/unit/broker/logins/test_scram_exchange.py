"""The server's side of SCRAM: the example of RFC 7677, and clients that differ from it."""

import base64
import hashlib
import hmac

import pytest

from headrace.broker.logins.exchange import Accepted, Challenge, Refused, Step
from headrace.broker.logins.scram_credential import ScramCredential
from headrace.broker.logins.scram_exchange import ScramExchange
from headrace.broker.logins.users import Users
from headrace.wire import scram_client
from tests.support.serving_broker import MemoryUsers

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERIFIER = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(user: str = "user") -> ScramExchange:
    registry = MemoryUsers()
    credential = ScramCredential.of_password("SCRAM-SHA-256", "pencil", SALT, 4_096)
    registry.users[user] = {"SCRAM-SHA-256": credential.to_text()}
    users = Users(registry, None, lambda after_ms, call: None)  # type: ignore[arg-type]
    users.load()
    return ScramExchange("SCRAM-SHA-256", users, lambda: SERVER_NONCE)


def last_step(exchanged: ScramExchange, *messages: bytes) -> Step:
    steps = [exchanged.take(message) for message in messages]
    return steps[-1]


def test_the_example_of_the_rfc() -> None:
    server = exchange()
    assert server.take(FIRST) == Challenge(CHALLENGE)
    assert server.take(FINAL) == Accepted(message=VERIFIER, user="user")


@pytest.mark.parametrize("name", ["a,b", "a=b", "=2C", "d e*v", "ünï"])
def test_a_name_with_commas_and_equals_signs_is_read_as_it_was_written(name: str) -> None:
    server = exchange(name)
    client = scram_client.exchange("sha256", name, "pencil", "abc")
    message = next(client)
    challenge = server.take(message)
    assert isinstance(challenge, Challenge)
    accepted = server.take(client.send(challenge.message))
    assert isinstance(accepted, Accepted)
    assert accepted.user == name
    with pytest.raises(StopIteration):
        client.send(accepted.message)


def test_a_client_that_sends_its_own_nonce_twice_is_taken_as_kafka_takes_it() -> None:
    """Fault: kcat with librdkafka 2.0.2 could not log in, because the nonces were compared as a whole."""
    server = exchange()
    assert isinstance(server.take(FIRST), Challenge)
    without_proof = "c=biws,r=rOprNGfwEbeRWgbNEkqOrOprNGfwEbeRWgbNEkqO" + SERVER_NONCE
    proof = _proof(f"n=user,r=rOprNGfwEbeRWgbNEkqO,{CHALLENGE.decode()},{without_proof}")
    assert isinstance(server.take(f"{without_proof},p={proof}".encode()), Accepted)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([FIRST.replace(b"n=user", b"m=1,n=user")], "first message"),
        ([FIRST.replace(b"n,,", b"p=tls-unique,,")], "first message"),
        ([FIRST.replace(b"n,,", b"n,a=other,")], "act as another"),
        ([FIRST.replace(b"user", b"us=er")], "without 2C or 3D"),
        ([FIRST + b"\xff"], "utf-8"),
        ([b""], "first message"),
        ([b"n" * 5_000], "5000 bytes"),
        ([FIRST, FINAL.replace(b"biws", b"eSws")], "another header"),
        ([FIRST, FINAL.replace(b"k0,p", b"k1,p")], "another nonce"),
        ([FIRST, FINAL.replace(b"p=d", b"p=e")], "another password"),
        ([FIRST, FINAL[:-8]], "another length"),
        ([FIRST, FINAL.replace(b",p=", b",q=")], "last message"),
        ([FIRST, FIRST], "last message"),
        ([FIRST.replace(b"user", b"User"), FINAL], "no such user"),
    ],
)
def test_what_is_not_right_is_refused(messages: list[bytes], why: str) -> None:
    refused = last_step(exchange(), *messages)
    assert isinstance(refused, Refused)
    assert why in refused.why


def _proof(signed: str) -> str:
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4_096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed.encode(), "sha256")
    return base64.b64encode(bytes(one ^ other for one, other in zip(client_key, signature, strict=True))).decode()
