"""Which columns a schema becomes, and JSON values of events."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from headrace.apps.sinks.columns import columns_of, takes, values_of
from headrace.apps.sinks.sink import SinkRefused
from headrace.reader.decoding.json_value import json_value

FIELDS = {
    "s": ("string", "text"),
    "i": ("int", "integer"),
    "l": (["null", "long"], "bigint"),
    "d": ("double", "double precision"),
    "b": ("bytes", "bytea"),
    "at": ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp with time zone"),
    "day": ({"type": "int", "logicalType": "date"}, "date"),
    "n": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "numeric"),
    "u": ({"type": "string", "logicalType": "uuid"}, "uuid"),
    "e": ({"type": "enum", "name": "E", "symbols": ["A"]}, "text"),
    "tags": ({"type": "array", "items": "string"}, "jsonb"),
    "map": ({"type": "map", "values": "int"}, "jsonb"),
    "record": ({"type": "record", "name": "R", "fields": []}, "jsonb"),
    "either": (["int", "string"], "jsonb"),
}


def test_each_avro_type_has_its_column() -> None:
    schema = {"type": "record", "name": "X", "fields": [{"name": name, "type": avro} for name, (avro, _) in FIELDS.items()]}
    columns = columns_of(schema)
    assert {one.field: one.type for one in columns} == {name: column for name, (_, column) in FIELDS.items()}
    found = values_of({"s": "x", "tags": ["a"], "map": None}, columns)
    assert (found[0], found[10], found[11]) == (("x", False), (["a"], True), (None, False))


def test_what_can_be_no_table_is_refused() -> None:
    with pytest.raises(SinkRefused, match="only records"):
        columns_of({"type": "string"})
    with pytest.raises(SinkRefused, match="_offset"):
        columns_of({"type": "record", "name": "X", "fields": [{"name": "_offset", "type": "int"}]})


def test_a_wider_column_takes_a_narrower_field_and_not_the_other_way() -> None:
    assert takes("bigint", "integer")
    assert not takes("integer", "bigint")
    assert not takes("text", "integer")


def test_decoded_values_are_json() -> None:
    value = {
        "at": datetime(2026, 1, 2, tzinfo=UTC), "day": date(2026, 1, 2), "n": Decimal("1.50"), "u": UUID(int=1), "b": b"\xff",
        "nan": float("nan"), "list": [1, (2,)],
    }  # fmt: skip
    assert json.loads(json.dumps(json_value(value), allow_nan=False)) == {
        "at": "2026-01-02T00:00:00+00:00", "day": "2026-01-02", "n": "1.50", "u": str(UUID(int=1)), "b": "/w==", "nan": "nan",
        "list": [1, [2]],
    }  # fmt: skip
