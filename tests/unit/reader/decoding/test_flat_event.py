"""C and fastavro mean the same by each payload, whatever its bytes, and make the same instances of it."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.reader.decoding import event_decoder, flat_event
from headrace.reader.decoding.event_decoder import EventDecoder, Undecodable
from headrace.runtime.native import native

pytestmark = pytest.mark.skipif(not hasattr(native, "flat_event"), reason="headrace_native is not installed, or older")

SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "server", "type": "string"},
        {"name": "user", "type": "string"},
        {"name": "size", "type": ["null", "long"]},
        {"name": "odd", "type": ["string", "null"]},
        {"name": "price", "type": "double"},
        {"name": "rate", "type": "float"},
        {"name": "is_new", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
    ],
}
PARSED = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))


@dataclass
class Click:
    event_time: int
    user: str
    size: int | None
    odd: str
    price: float
    rate: float
    is_new: bool
    raw: bytes
    note: str = "none"

    def __post_init__(self) -> None:
        if self.user == "refused":
            raise ValueError("not this user")


class _Schemas:
    def schema(self, schema_id: int) -> str:
        return json.dumps(SCHEMA)


EVENT = st.fixed_dictionaries(
    {
        "event_time": st.integers(-(1 << 61), 1 << 61) | st.integers(0, 1 << 40),
        "server": st.text(max_size=5),
        "user": st.text(max_size=5) | st.just("refused"),
        "size": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "odd": st.none() | st.text(max_size=3),
        "price": st.floats(allow_nan=False),
        "rate": st.floats(width=32, allow_nan=False),
        "is_new": st.booleans(),
        "raw": st.binary(max_size=5),
    }
)


def encoded(event: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PARSED, event)
    return b"\0\0\0\0\x07" + out.getvalue()


ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def result(decoder: EventDecoder, payload: bytes) -> object:
    try:
        return decoder.decode_framed(payload)
    except Undecodable as error:
        return error.code, ADDRESS.sub("", str(error))  # fastavro names the buffer that it read from


def decoders() -> tuple[EventDecoder, EventDecoder]:
    in_c, in_python = EventDecoder(_Schemas(), Click), EventDecoder(_Schemas(), Click)
    for one in (in_c, in_python):
        result(one, b"\0\0\0\0\x07")
    assert in_c._flat, "the schema is flat"
    in_python._flat.clear()
    return in_c, in_python


IN_C, IN_PYTHON = decoders() if hasattr(native, "flat_event") else (None, None)


@settings(deadline=None)
@given(EVENT, st.integers(0, 60), st.binary(max_size=2), st.booleans())
def test_both_take_and_refuse_the_same(event: dict[str, Any], at: int, bytes_: bytes, is_cut: bool) -> None:
    assert IN_C is not None
    assert IN_PYTHON is not None
    payload = encoded({**event, "event_time": event["event_time"] % (1 << 45)})
    for one in (payload, payload[: at + 5], payload[: at + 5] + bytes_ + payload[at + 5 + (len(bytes_) if not is_cut else 0) :]):
        assert result(IN_C, one) == result(IN_PYTHON, one)


def test_times_that_no_calendar_holds_are_refused_by_both() -> None:
    assert IN_C is not None
    assert IN_PYTHON is not None
    good = encoded(dict(event_time=5, server="", user="a", size=1, odd="", price=1.0, rate=1.0, is_new=True, raw=b""))
    for raw_ms in (-62135596800000, 253402300799999, -62135596800001, 253402300800000, 1 << 62):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, {"type": "long"}, raw_ms)
        payload = good[:5] + out.getvalue() + good[6:]
        assert result(IN_C, payload) == result(IN_PYTHON, payload)


def test_c_decides_for_a_plain_event_and_leaves_the_rest() -> None:
    make: Callable[[bytes], Any] | None = flat_event.flat_event(Click, SCHEMA)
    assert make is not None
    words = dict(event_time=5, server="", user="a", size=None, odd="x", price=1.5, rate=0.5, is_new=True, raw=b"r")
    assert make(encoded(words)) == Click(5, "a", None, "x", 1.5, 0.5, True, b"r")
    assert make(encoded({**words, "odd": None})) is None, "the class does not allow it: Python says so"
    assert make(encoded({**words, "user": "refused"})) is None
    assert make(b"\0") is None


@pytest.mark.parametrize(
    "field",
    [
        {"name": "user", "type": {"type": "enum", "name": "E", "symbols": ["a"]}},
        {"name": "user", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "user", "type": ["string", "long"]},
        {"name": "user", "type": {"type": "array", "items": "string"}},
        {"name": "user", "type": "long"},
    ],
)
def test_what_is_not_flat_is_left_to_python(field: dict[str, Any]) -> None:
    @dataclass
    class User:
        user: str

    event_decoder.check_class(User)
    assert flat_event.flat_event(User, {"type": "record", "name": "User", "fields": [field]}) is None
