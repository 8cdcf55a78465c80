import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sdk import ACCESS_LOG_SCHEMA, EventRefused, SchemaRefused, event_schema, nullable
from headrace.sdk.event_encoder import EventEncoder, event_time_ms_of

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
GOOD: dict[str, Any] = {"event_time": 1_431_856_000_123, "server": "web-1", "count": 3}


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
    event = {"event_time": event_time, "server": "s", "count": count, "price_cents": price_cents, "note": note}
    event["lines"] = [{"sku": sku} for sku in skus]
    decoded = _decoded(EventEncoder(SCHEMA).encode(event))
    assert decoded == {
        **event,
        "kind": "CASH",
        "event_time": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=event_time),
    }


def test_what_has_a_default_may_be_left_out() -> None:
    assert _decoded(EventEncoder(SCHEMA).encode(GOOD))["note"] == ""


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
        ({"event_time": 1.5}, "event_time", "timestamp-millis"),
        ({"nickname": "x"}, "nickname", "no such field"),
        ({"lines": 5}, "lines", "array"),
    ],
)
def test_an_event_that_does_not_fit_names_field_value_and_type(change: dict[str, Any], field: str, expected: str) -> None:
    with pytest.raises(EventRefused) as caught:
        EventEncoder(SCHEMA).encode({**GOOD, **change})
    assert caught.value.field == field
    assert caught.value.value == change[field]
    assert expected in caught.value.expected
    assert repr(change[field]) in str(caught.value)


def test_a_missing_field_is_called_missing() -> None:
    with pytest.raises(EventRefused, match=r"field 'count' is None of type NoneType, expected int .it is missing."):
        EventEncoder(SCHEMA).encode({"event_time": 1, "server": "s"})


def test_a_fault_deep_inside_is_named_with_its_path() -> None:
    with pytest.raises(EventRefused, match="sku"):
        EventEncoder(SCHEMA).encode({**GOOD, "lines": [{"sku": "a"}, {"sku": 7}]})


@pytest.mark.parametrize("event", [None, 7, "event", [("count", 1)], {}, {"note": "\ud800", **GOOD}, {5: 6, **GOOD}])
def test_no_event_whatever_raises_anything_else(event: Any) -> None:
    with pytest.raises(EventRefused):
        EventEncoder(SCHEMA).encode(event)


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(EventRefused) as caught:
        EventEncoder(SCHEMA).encode({**GOOD, "count": "x" * 10_000})
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
