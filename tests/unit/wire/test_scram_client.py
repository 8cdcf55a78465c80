"""SCRAM against the RFCs' own examples, and against servers that do not know the password."""

import base64

import pytest

from headrace.wire import scram_client

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_rfc_7677() -> None:
    exchange = scram_client.exchange("sha256", "user", "pencil", NONCE)
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(SERVER_FIRST) == CLIENT_FINAL
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL)


def test_the_example_of_rfc_5802(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is of SHA-1, which Kafka does not have: the arithmetic is the same."""
    exchange = scram_client.exchange("sha1", "user", "pencil", "fyko+d2lbbFgONRv9qkxdawL")
    assert next(exchange) == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    final = exchange.send(b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096")
    assert final == b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    with pytest.raises(StopIteration):
        exchange.send(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=")


@pytest.mark.parametrize(
    "first",
    [
        SERVER_FIRST.replace(b"r=rOpr", b"r=XOpr"),
        b"r=" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        SERVER_FIRST.replace(b"i=4096", b"i=4095"),
        SERVER_FIRST.replace(b"i=4096", b"i=%d" % (scram_client.MOST_ITERATIONS + 1)),
        SERVER_FIRST.replace(b"i=4096", b"i=-1"),
        SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="),
        SERVER_FIRST.replace(b"s=W22Z", b"s=!!!!"),
        SERVER_FIRST.replace(b"s=W22Z", "s=W2ü".encode()),
        b"m=ext," + SERVER_FIRST,
        b"e=unknown-user",
        b"\xff\xfe",
        b"",
    ],
)
def test_a_first_message_that_breaks_the_rules_is_refused(first: bytes) -> None:
    """Fault: letters beyond ASCII in the salt, or in the signature, were a ValueError that no caller expects."""
    exchange = scram_client.exchange("sha256", "user", "pencil", NONCE)
    next(exchange)
    with pytest.raises(scram_client.ScramRefused):
        exchange.send(first)


@pytest.mark.parametrize(
    "final", [b"v=" + base64.b64encode(b"x" * 32), b"v=", b"v=!", "v=é".encode(), b"e=invalid-proof", b"", b"\xff"]
)
def test_a_server_that_does_not_know_the_password_is_refused(final: bytes) -> None:
    exchange = scram_client.exchange("sha256", "user", "pencil", NONCE)
    next(exchange)
    exchange.send(SERVER_FIRST)
    with pytest.raises(scram_client.ScramRefused):
        exchange.send(final)


def test_names_are_escaped_and_prepared() -> None:
    assert next(scram_client.exchange("sha256", "a=b,c", "p", NONCE)).startswith(b"n,,n=a=3Db=2Cc,")
    # RFC 4013, section 3: its own examples.
    assert [scram_client.prepared(one) for one in ("I\u00adX", "user", "USER", "\u00aa", "\u2168")] == [
        "IX",
        "user",
        "USER",
        "a",
        "IX",
    ]
    with pytest.raises(scram_client.ScramRefused):
        scram_client.prepared("\u0007")
