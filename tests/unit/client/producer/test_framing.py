"""The framing in C makes the records that the framing in Python makes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.native import load
from headrace.wire.batch import record_frame

native: Any = load()
pytestmark = pytest.mark.needs("native")


@given(
    delta_ms=st.integers(-(2**40), 2**40) | st.integers(-2, 9000),
    offset_delta=st.integers(0, 2**31 - 1) | st.integers(0, 9000),
    key=st.none() | st.binary(max_size=9),
    prefix=st.sampled_from([b"", b"\0\0\0\0\7"]),
    body=st.binary(max_size=200) | st.just(bytes(70_000)),
)
def test_both_framings_make_one_record(delta_ms: int, offset_delta: int, key: bytes | None, prefix: bytes, body: bytes) -> None:
    framed = native.frame_record(delta_ms, offset_delta, key, prefix, body)
    assert framed == record_frame.frame_record(delta_ms, offset_delta, key, prefix, body)
    assert framed == record_frame.frame_any(delta_ms, offset_delta, key, prefix + body, ())
