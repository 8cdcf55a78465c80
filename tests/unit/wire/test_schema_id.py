"""The envelope of a schema id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.errors import NotFramed, WireError
from headrace.wire.schema_id import frame, unframe


def test_the_envelope_is_a_zero_and_four_bytes() -> None:
    assert frame(258, b"avro") == b"\x00\x00\x00\x01\x02avro"


@given(st.integers(0, 2**31 - 1), st.binary(max_size=50))
def test_what_was_framed_is_unframed(schema_id: int, body: bytes) -> None:
    assert unframe(frame(schema_id, body)) == (schema_id, body)


@pytest.mark.parametrize("payload", [b"", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01x", b"{}   ", b"\x00\xff\xff\xff\xff"])
def test_anything_else_is_not_framed(payload: bytes) -> None:
    with pytest.raises(NotFramed):
        unframe(payload)


@pytest.mark.parametrize("schema_id", [-1, 2**31])
def test_an_id_that_does_not_fit_is_refused(schema_id: int) -> None:
    with pytest.raises(WireError, match="does not fit"):
        frame(schema_id, b"")
