import io
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sdk import ACCESS_LOG_SCHEMA, EventRefused, SchemaRefused, event_schema, nullable
from headrace.sdk.encoding.event_encoder import EventEncoder, MakeWriter, event_time_ms_of, native_writer, python_writer

WRITERS = [python_writer, pytest.param(native_writer, marks=pytest.mark.needs("native"))]
SCHEMA = event_schema(
    "Sale",
    [
        {"name": "count", "type": "int"},
        nullable("price_cents", "long"),
        {"name": "note", "type": "string", "default": ""},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["CASH", "CARD"]}, "default": "CASH"},
        {
            "name": "lines",
            "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}},
            "default": [],
        },
    ],
)
TIME_MS = 1_431_856_000_123
GOOD: dict[str, Any] = {"server": "web-1", "count": 3}


def _decoded(body: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(SCHEMA), None)


@given(
    count=st.integers(-(2**31), 2**31 - 1),
    price_cents=st.none() | st.integers(-(2**63), 2**63 - 1),
    note=st.text(max_size=40).filter(lambda text: not any("\ud800" <= char <= "\udfff" for char in text)),
    event_time=st.integers(0, 4_000_000_000_000),
    skus=st.lists(st.text(alphabet="abc", max_size=5), max_size=3),
)
def test_an_event_that_fits_is_read_back_by_a_foreign_reader(
    count: int, price_cents: int | None, note: str, event_time: int, skus: list[str]
) -> None:
    event = {"server": "s", "count": count, "price_cents": price_cents, "note": note}
    event["lines"] = [{"sku": sku} for sku in skus]
    decoded = _decoded(EventEncoder(SCHEMA).encode(event, event_time))
    assert decoded == {
        **event,
        "kind": "CASH",
        "event_time": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=event_time),
    }


def test_what_has_a_default_may_be_left_out() -> None:
    assert _decoded(EventEncoder(SCHEMA).encode(GOOD, TIME_MS))["note"] == ""


@pytest.mark.parametrize(
    ("change", "field", "expected"),
    [
        ({"count": "three"}, "count", "int"),
        ({"count": True}, "count", "int"),
        ({"count": 2**31}, "count", "int"),
        ({"count": 1.5}, "count", "int"),
        ({"count": None}, "count", "int"),
        ({"price_cents": 2**63}, "price_cents", "null or long"),
        ({"price_cents": 9.99}, "price_cents", "null or long"),
        ({"note": b"bytes"}, "note", "string"),
        ({"note": None}, "note", "string"),
        ({"kind": "BARTER"}, "kind", "Kind"),
        ({"nickname": "x"}, "nickname", "no such field"),
        ({"lines": 5}, "lines", "array"),
    ],
)
def test_an_event_that_does_not_fit_names_field_value_and_type(change: dict[str, Any], field: str, expected: str) -> None:
    with pytest.raises(EventRefused) as caught:
        EventEncoder(SCHEMA).encode({**GOOD, **change}, TIME_MS)
    assert caught.value.field == field
    assert caught.value.value == change[field]
    assert expected in caught.value.expected
    assert repr(change[field]) in str(caught.value)


def test_a_missing_field_is_called_missing() -> None:
    with pytest.raises(EventRefused, match=r"field 'count' is None of type NoneType, expected int .it is missing."):
        EventEncoder(SCHEMA).encode({"server": "s"}, 1)


def test_a_fault_deep_inside_is_named_with_its_path() -> None:
    with pytest.raises(EventRefused, match="sku"):
        EventEncoder(SCHEMA).encode({**GOOD, "lines": [{"sku": "a"}, {"sku": 7}]}, TIME_MS)


@pytest.mark.parametrize("event", [None, 7, "event", [("count", 1)], {}, {"note": "\ud800", **GOOD}, {5: 6, **GOOD}])
def test_no_event_whatever_raises_anything_else(event: Any) -> None:
    with pytest.raises(EventRefused):
        EventEncoder(SCHEMA).encode(event, TIME_MS)


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(EventRefused) as caught:
        EventEncoder(SCHEMA).encode({**GOOD, "count": "x" * 10_000}, TIME_MS)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "schema",
    [
        "not json",
        {"type": "nonsense"},
        "string",
        {"type": "record", "name": "E", "fields": []},
        {"type": "record", "name": "E", "fields": [{"name": "event_time", "type": "long"}, {"name": "server", "type": "string"}]},
        {
            "type": "record",
            "name": "E",
            "fields": [{"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
        },
    ],
)
def test_a_schema_without_event_time_and_server_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaRefused, match="the schema of the events"):
        EventEncoder(schema)


def test_a_schema_may_be_given_as_text_and_is_registered_as_it_stands() -> None:
    assert json.loads(EventEncoder(json.dumps(SCHEMA)).text) == SCHEMA
    assert json.loads(EventEncoder(ACCESS_LOG_SCHEMA).text) == ACCESS_LOG_SCHEMA


def test_instants_are_milliseconds_or_aware_datetimes() -> None:
    assert event_time_ms_of(5) == 5
    assert event_time_ms_of(datetime(1970, 1, 1, 1, tzinfo=UTC)) == 3_600_000
    for wrong in (datetime(1970, 1, 2), -1, True, 1.0, "5", 1 << 62, datetime(1969, 1, 1, tzinfo=UTC)):
        assert event_time_ms_of(wrong) is None


def test_the_servers_name_is_the_loggers_where_the_event_gives_none() -> None:
    encoder = EventEncoder(SCHEMA, "web-9")
    assert _decoded(encoder.encode({"count": 3}, TIME_MS))["server"] == "web-9"
    assert _decoded(encoder.encode(GOOD, TIME_MS))["server"] == "web-1"
    with pytest.raises(EventRefused, match="'server' is None"):
        EventEncoder(SCHEMA).encode({"count": 3}, TIME_MS)


def test_the_event_time_given_counts_whatever_the_event_has() -> None:
    for own in (5, None, "yesterday", 1.5):
        body = EventEncoder(SCHEMA).encode({**GOOD, "event_time": own}, TIME_MS)
        assert body == EventEncoder(SCHEMA).encode(GOOD, TIME_MS)


@pytest.mark.parametrize("timestamp_ms", [1.5, None, "5", True, 2**63])
def test_an_event_time_that_is_none_is_refused(timestamp_ms: Any) -> None:
    with pytest.raises(EventRefused, match="event_time"):
        EventEncoder(SCHEMA).encode(GOOD, timestamp_ms)


def test_a_servers_name_without_utf8_is_refused_with_each_event() -> None:
    with pytest.raises(EventRefused, match="UTF-8"):
        EventEncoder(SCHEMA, "\ud800").encode({"count": 3}, TIME_MS)


class _Failing(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        raise OSError("gone")

    def __iter__(self) -> Iterator[str]:
        return iter(["count"])

    def __len__(self) -> int:
        return 1


def test_a_mapping_that_fails_is_a_refusal() -> None:
    with pytest.raises(EventRefused, match="gone"):
        EventEncoder(SCHEMA, "s").encode(_Failing(), TIME_MS)


TREE = event_schema(
    "Tree",
    [
        {
            "name": "root",
            "type": {
                "type": "record",
                "name": "Node",
                "fields": [{"name": "value", "type": "int"}, {"name": "parts", "type": {"type": "array", "items": "Node"}}],
            },
        }
    ],
)


def test_a_record_may_contain_itself() -> None:
    event = {"root": {"value": 1, "parts": [{"value": 2, "parts": []}, {"value": 3, "parts": []}]}}
    body = EventEncoder(TREE, "s").encode(event, TIME_MS)
    decoded: Any = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(TREE), None)
    assert decoded["root"] == event["root"]


@pytest.mark.parametrize("value", [1, Decimal(1)], ids=["plain", "for fastavro alone"])
@pytest.mark.parametrize("make_writer", WRITERS)
def test_an_event_that_contains_itself_is_refused_and_overruns_no_stack(make_writer: MakeWriter, value: Any) -> None:
    """fastavro recursed in C until the process died."""
    node: dict[str, Any] = {"value": value}
    node["parts"] = [node]
    with pytest.raises(EventRefused, match="nested at most"):
        EventEncoder(TREE, "s", make_writer=make_writer).encode({"root": node}, TIME_MS)


@pytest.mark.parametrize("make_writer", WRITERS)
def test_an_event_in_an_event_names_its_own_server_and_time(make_writer: MakeWriter) -> None:
    chain = event_schema("Chain", [{"name": "cause", "type": ["null", "Chain"], "default": None}])
    encoder = EventEncoder(chain, "web-1", make_writer=make_writer)
    cause = {"server": "web-2", "event_time": 5, "cause": None}
    decoded: Any = fastavro.schemaless_reader(
        io.BytesIO(encoder.encode({"cause": cause}, TIME_MS)), fastavro.parse_schema(chain), None
    )
    assert decoded["server"] == "web-1"
    assert decoded["cause"]["server"] == "web-2"
    for without in ("server", "event_time"):
        with pytest.raises(EventRefused):
            encoder.encode({"cause": {name: value for name, value in cause.items() if name != without}}, TIME_MS)


@pytest.mark.parametrize("make_writer", WRITERS)
def test_a_schema_nested_more_deeply_than_python_recurses_is_left_to_fastavro(make_writer: MakeWriter) -> None:
    kind: Any = "int"
    value: Any = 1
    for _ in range(sys.getrecursionlimit() // 3):
        kind, value = {"type": "array", "items": kind}, [value]
    schema = event_schema("Deep", [{"name": "value", "type": kind}])
    encoder = EventEncoder(schema, "s", make_writer=make_writer)
    assert encoder.encode({"value": value}, TIME_MS).endswith(b"\x02\x02\0" + b"\0" * (sys.getrecursionlimit() // 3 - 1))
