"""The journal's records made in C are those made in Python."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.native import load
from headrace.sdk.journal.files import layout

native: Any = load()
pytestmark = pytest.mark.needs("native")


@given(
    number=st.integers(0, 2**64 - 1),
    timestamp_ms=st.integers(-(2**63), 2**63 - 1),
    kind=st.sampled_from(list(layout.Kind)),
    key=st.none() | st.binary(max_size=9),
    body=st.binary(max_size=100),
    salt=st.integers(0, 2**32 - 1),
)
def test_both_make_one_record(number: int, timestamp_ms: int, kind: int, key: bytes | None, body: bytes, salt: int) -> None:
    words = (number, timestamp_ms, kind, key, body, salt)
    assert native.journal_record(*words) == layout.record_bytes(*words)


@pytest.mark.parametrize("words", [(-1, 0, 1, None, b"", 0), (0, 2**63, 1, None, b"", 0)])
def test_what_fits_no_record_is_no_full_segment(words: tuple[Any, ...]) -> None:
    """A ValueError would mean that the segment has no room."""
    with pytest.raises(OverflowError):
        native.journal_record(*words)
    with pytest.raises((struct.error, OverflowError)):
        layout.record_bytes(*words)
