"""Every writer gives fastavro's bytes for what fastavro's validation accepts, and refuses what it refuses."""

import datetime
import decimal
import io
import uuid
from typing import Any

import fastavro
import pytest
from fastavro.logical_writers import LOGICAL_WRITERS
from fastavro.validation import validate
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.sdk import ACCESS_LOG_SCHEMA, EventRefused, event_schema, nullable
from headrace.sdk.encoding.event_encoder import EventEncoder, FastWriter, MakeWriter, native_writer, python_writer
from headrace.sdk.encoding.program import NotKnown, compile_schema

from .random_events import schemas_and_events, spoilt

TIME_MS = 1_431_856_000_123
PAGE_VIEW: dict[str, Any] = {"client_ip": "::1", "status": 200, "size_bytes": 2**40, "path": "/ä", "user": None}


WRITERS = pytest.mark.parametrize(
    "make_writer", [python_writer, pytest.param(native_writer, marks=pytest.mark.needs("native"))], ids=["python", "native"]
)


def by_fastavro(schema: Any, event: Any) -> bytes | None:
    """Return what was sent before there were fast writers; None for a refusal."""
    parsed = fastavro.parse_schema(schema)
    out = io.BytesIO()
    try:
        filled = {"server": "web-1", **event, "event_time": TIME_MS}
        if not validate(filled, parsed, raise_errors=False):
            return None
        fastavro.schemaless_writer(out, parsed, filled, strict_allow_default=True)
    except Exception:
        return None
    return out.getvalue()


def by_encoder(make_writer: MakeWriter, schema: Any, event: Any) -> bytes | None:
    try:
        return EventEncoder(schema, "web-1", make_writer=make_writer).encode(event, TIME_MS)
    except EventRefused:
        return None


def writer_of(make_writer: MakeWriter, schema: Any) -> FastWriter:
    return make_writer(compile_schema(fastavro.parse_schema(schema)), b"web-1")


@WRITERS
@settings(max_examples=150)
@given(schemas_and_events())
def test_an_event_that_fits_becomes_the_same_bytes(make_writer: MakeWriter, pair: tuple[Any, dict[str, Any]]) -> None:
    schema, event = pair
    before = repr(event)
    assert by_encoder(make_writer, schema, event) == by_fastavro(schema, event)
    assert repr(event) == before


@WRITERS
@settings(max_examples=300)
@given(st.data())
def test_an_event_with_something_odd_in_it_has_the_same_fate(make_writer: MakeWriter, data: st.DataObject) -> None:
    schema, event = data.draw(schemas_and_events())
    odd = data.draw(spoilt(event))
    assert by_encoder(make_writer, schema, odd) == by_fastavro(schema, odd)


@WRITERS
@pytest.mark.parametrize(
    "event",
    [
        PAGE_VIEW,
        {**PAGE_VIEW, "server": "other", "event_time": 5},
        {**PAGE_VIEW, "method": "GET", "protocol": "x" * 5000, "ident": "", "referrer": "\x00", "user_agent": "ﬁ"},
        {name: None for name in ("ident", "user", "method", "path", "protocol", "size_bytes", "referrer", "user_agent")}
        | {"client_ip": "", "status": -1},
    ],
)
def test_the_fast_writer_takes_plain_events(make_writer: MakeWriter, event: dict[str, Any]) -> None:
    encode = writer_of(make_writer, ACCESS_LOG_SCHEMA)
    assert encode(event, TIME_MS) == by_fastavro(ACCESS_LOG_SCHEMA, event)


@WRITERS
@given(value=st.integers(-(2**63), 2**63 - 1), time_ms=st.integers(0, 2**62 - 1))
def test_every_long_is_written_as_by_fastavro(make_writer: MakeWriter, value: int, time_ms: int) -> None:
    encode = writer_of(make_writer, event_schema("Number", [nullable("value", "long")]))
    assert encode({"value": value}, time_ms) == _long(time_ms) + b"\x0aweb-1\x02" + _long(value)


def _long(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


KINDS = [
    ("boolean", True),
    ("int", -(2**31)),
    ({"type": "long"}, 2**63 - 1),
    ("float", 1),
    ("float", float("-inf")),
    ("double", 0.1),
    ("string", "ä\0"),
    ("bytes", b"\xff"),
    ("bytes", bytearray(b"\xff")),
    ({"type": "fixed", "name": "F", "size": 2}, b"ab"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "array", "items": "int"}, ()),
    ({"type": "map", "values": ["null", "double", "string"]}, {"a": None, "b": 1, "c": "d"}),
    (["null", "int", "long"], 2**31),
    (["float", "null", "double"], 0.1),
    ([{"type": "enum", "name": "E", "symbols": ["A", "B"]}, "string"], "C"),
    ({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int", "default": 5}]}, {}),
    ({"type": "long", "logicalType": "timestamp-micros"}, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
    (["null", {"type": "int", "logicalType": "date"}], datetime.date(2026, 1, 1)),
    ({"type": "int", "logicalType": "time-millis"}, datetime.time(1, 2, 3)),
    ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=7)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, decimal.Decimal("-1.25")),
    ({"type": "fixed", "name": "F", "size": 3, "logicalType": "decimal", "precision": 4, "scale": 2}, decimal.Decimal("-1.25")),
    ({"type": "string", "logicalType": "nobody knows it"}, "text"),
]


@WRITERS
@pytest.mark.parametrize(("kind", "value"), KINDS)
def test_each_kind_is_written_without_fastavro(make_writer: MakeWriter, kind: Any, value: Any) -> None:
    schema = event_schema("One", [{"name": "value", "type": kind}])
    assert writer_of(make_writer, schema)({"value": value}, TIME_MS) == by_fastavro(schema, {"value": value})


def test_the_applications_own_logical_type_is_left_to_fastavro(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOGICAL_WRITERS, "string-shout", lambda text, schema: text.upper())
    schema = event_schema("One", [{"name": "value", "type": {"type": "string", "logicalType": "shout"}}])
    with pytest.raises(NotKnown, match="shout"):
        compile_schema(fastavro.parse_schema(schema))
    assert EventEncoder(schema, "web-1").encode({"value": "a"}, TIME_MS).endswith(b"\x02A")
