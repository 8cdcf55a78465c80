"""Credentials in Kafka's text format, and those of users that do not exist."""

import base64

import pytest
from hypothesis import given, strategies

from headrace.broker.logins.scram_credential import BadCredential, ScramCredential, imagined, typical

RFC_7677 = ScramCredential.of_password("SCRAM-SHA-256", "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4_096)
"""The example of RFC 7677, section 3."""
TEXT = (
    "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
    "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
)
"""As Apache Kafka and PostgreSQL write it for that example."""


def test_a_credential_is_written_and_read_as_kafka_does() -> None:
    assert RFC_7677.to_text() == TEXT
    assert ScramCredential.of_text("SCRAM-SHA-256", TEXT) == RFC_7677
    assert RFC_7677.fits("SCRAM-SHA-256", "pencil")
    assert not RFC_7677.fits("SCRAM-SHA-256", "Pencil")


def test_a_credential_shows_no_key() -> None:
    assert "W22" not in repr(RFC_7677)
    assert "WG5d" not in repr(RFC_7677)


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT.replace("iterations=4096", "iterations=1"),
        TEXT.replace("iterations=4096", "iterations=" + "9" * 20),
        TEXT.replace("stored_key=WG5", "stored_key=!"),
        TEXT.replace("salt=W22ZaJ0SNY7soEsUEjb6gQ==", "salt="),
        TEXT.replace("server_key=", "key="),
    ],
)
def test_a_credential_that_cannot_be_right_is_refused(text: str) -> None:
    with pytest.raises(BadCredential):
        ScramCredential.of_text("SCRAM-SHA-256", text)
    with pytest.raises(BadCredential):
        ScramCredential.of_text("SCRAM-SHA-512", TEXT)


@given(strategies.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(BadCredential):
        ScramCredential.of_text("SCRAM-SHA-256", text)


def test_a_user_that_does_not_exist_looks_like_most_that_do() -> None:
    others = [
        ScramCredential.of_password("SCRAM-SHA-512", "x", b"s" * size, count)
        for size, count in ((20, 8_000), (20, 8_000), (16, 4_096))
    ]
    made = imagined(b"secret", "SCRAM-SHA-512", "nobody", typical(others))
    assert (len(made.salt), made.iterations) == (20, 8_000)
    assert made == imagined(b"secret", "SCRAM-SHA-512", "nobody", typical(others))
    assert made.salt != imagined(b"other", "SCRAM-SHA-512", "nobody", typical(others)).salt
    assert ScramCredential.of_text("SCRAM-SHA-512", made.to_text()) == made
    assert typical([]) == (16, 4_096)
