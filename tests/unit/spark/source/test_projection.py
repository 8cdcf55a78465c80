"""Fewer columns are the same columns: what a projected decoder makes is what the whole one makes, without the others."""

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.spark.source import decoding
from headrace.spark.source.columns import SYSTEM_COLUMNS, writer_columns
from headrace.spark.source.decoding import BlockDecoder
from headrace.spark.source.projection import pruned, within
from headrace.wire.batch.record_batch import Record
from headrace.wire.schema_id import frame

from .test_decoding import body

PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}, {"name": "zip", "type": "int"}]}
EVENT: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "path", "type": "string"},
        {"name": "place", "type": PLACE},
        {"name": "number", "type": ["null", "long"]},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "either", "type": ["null", "int", "string", {"type": "array", "items": "long"}]},
        {"name": "before", "type": ["null", "Place"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "history", "type": {"type": "array", "items": "Place"}},
    ],
}
NAMES = [one["name"] for one in EVENT["fields"]]
places = st.fixed_dictionaries({"city": st.text(max_size=5), "zip": st.integers(0, 99_999)})
events = st.fixed_dictionaries(
    {
        "path": st.text(max_size=8),
        "place": places,
        "number": st.none() | st.integers(-(1 << 62), 1 << 62),
        "tags": st.dictionaries(st.text(max_size=3), st.none() | st.text(max_size=3), max_size=3),
        "either": st.none() | st.integers(0, 99) | st.text(max_size=4) | st.lists(st.integers(0, 9), max_size=3),
        "before": st.none() | places,
        "price": st.decimals(min_value=0, max_value=99_999, places=2),
        "kind": st.sampled_from(["A", "B"]),
        "history": st.lists(places, max_size=2),
    }
)


def decoder(fields: list[pa.Field], schema: Any = EVENT) -> BlockDecoder:
    return BlockDecoder(pa.schema([*fields, *SYSTEM_COLUMNS]), 3, lambda schema_id: json.dumps(schema), projects=True)


def records(some: list[dict[str, Any]], schema: Any = EVENT) -> list[Record]:
    return [Record(number, 1_000, None, frame(7, body(schema, one)), ()) for number, one in enumerate(some)]


@settings(max_examples=100)
@given(st.lists(events, min_size=1, max_size=4), st.lists(st.sampled_from(NAMES), unique=True))
def test_some_columns_are_those_of_all(some: list[dict[str, Any]], names: list[str]) -> None:
    fields = {one.name: one for one in writer_columns(json.dumps(EVENT)).fields()}
    (whole,) = decoder([*fields.values()]).decode(records(some)).rows
    few = decoder([fields[name] for name in names])
    decoded = few.decode(records(some))
    assert not decoded.rejected
    (found,) = decoded.rows
    assert found.to_pylist() == whole.select([*names, *SYSTEM_COLUMNS.names]).to_pylist()
    assert few.values_decoded == len(some) * len(names)
    assert sorted(decoded.left_out.get(7, ())) == sorted(set(NAMES) - set(names))


def test_what_is_left_out_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By fastavro's own work: a text that is not UTF-8 is an error where it is decoded, and nothing where it is skipped."""
    monkeypatch.setattr(decoding.FlatAvro, "of", lambda avro, wanted: None)
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
    record = Record(0, 1, None, frame(7, b"\x02" + b"\x04\xff\xfe"), ())
    whole = decoder([pa.field("a", pa.int64()), pa.field("b", pa.string())], schema).decode([record])
    assert [one.code for one in whole.rejected] == ["schema_mismatch"]
    (rows,) = decoder([pa.field("a", pa.int64())], schema).decode([record]).rows
    assert rows.column("a").to_pylist() == [1]


def test_flat_schemas_are_projected_in_c_too() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": ["null", "string"]} for name in "abc"]}
    some = [{"a": "x", "b": None, "c": f"{n}"} for n in range(5)]
    few = decoder([pa.field("c", pa.string()), pa.field("new", pa.int64())], schema)
    (rows,) = few.decode(records(some, schema)).rows
    assert rows.select(["c", "new"]).to_pylist() == [{"c": f"{n}", "new": None} for n in range(5)]
    assert few.values_decoded == 5


def test_fields_of_fields_without_a_place_are_named_and_left_out() -> None:
    city = pa.struct([pa.field("city", pa.string())])
    fields = [pa.field("place", city), pa.field("history", pa.list_(pa.field("element", city)))]
    kept, left_out = within(fields, writer_columns(json.dumps(EVENT)).fields())
    assert kept == fields
    assert left_out == ["path", "place.zip", *NAMES[2:8], "history[].zip"]
    one = {name: None for name in NAMES} | {
        "path": "",
        "place": {"city": "Bern", "zip": 1},
        "tags": {},
        "price": Decimal(1),
        "kind": "A",
    }
    (rows,) = decoder(fields).decode(records([{**one, "history": [{"city": "Thun", "zip": 2}]}])).rows
    assert rows.select(["place", "history"]).to_pylist() == [{"place": {"city": "Bern"}, "history": [{"city": "Thun"}]}]


def test_a_name_that_differs_in_capitals_is_refused_and_not_left_out() -> None:
    decoded = decoder([pa.field("PATH", pa.string())], {**EVENT, "fields": EVENT["fields"][:1]}).decode(
        records([{"path": "/"}], {**EVENT, "fields": EVENT["fields"][:1]})
    )
    assert "capitals" in decoded.rejected[0].reason


def test_a_type_that_another_field_defines_is_decoded_whole() -> None:
    assert pruned(EVENT, ["before"]) is None
    assert [one["name"] for one in pruned(EVENT, ["place", "before"])["fields"]] == ["place", "before"]
