"""Avro schemas become columns; tables grow by name and refuse contradictions."""

import json
from typing import Any

import pyarrow as pa
import pytest

from headrace.schema_registry.model.column_names import OF_THE_RECORD
from headrace.spark.source.columns import SYSTEM_COLUMNS, SchemaRefused, covers, union, writer_columns


def record(*fields: tuple[str, Any], name: str = "Event") -> str:
    return json.dumps({"type": "record", "name": name, "namespace": "t", "fields": [{"name": n, "type": t} for n, t in fields]})


def types(schema: str) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in writer_columns(schema).fields()}


def test_every_kind_of_field_has_its_column() -> None:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "q", "type": ["null", "int"]}]}
    found = types(
        record(
            ("b", "boolean"),
            ("i", "int"),
            ("f", ["null", "float"]),
            ("s", "string"),
            ("y", "bytes"),
            ("at", {"type": "long", "logicalType": "timestamp-millis"}),
            ("us", ["null", {"type": "long", "logicalType": "timestamp-micros"}]),
            ("day", {"type": "int", "logicalType": "date"}),
            ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
            ("e", {"type": "enum", "name": "E", "symbols": ["A"]}),
            ("l", {"type": "array", "items": inner}),
            ("again", "Inner"),
            ("m", {"type": "map", "values": {"type": "array", "items": "long"}}),
            ("u", ["null", "int", "string"]),
            ("uuid", {"type": "string", "logicalType": "uuid"}),
        )
    )
    struct = pa.struct([("q", pa.int64())])
    assert found == {
        "b": pa.bool_(),
        "i": pa.int64(),
        "f": pa.float64(),
        "s": pa.string(),
        "y": pa.binary(),
        "at": pa.timestamp("us", "UTC"),
        "us": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "price": pa.decimal128(9, 2),
        "e": pa.string(),
        "l": pa.list_(pa.field("element", struct)),
        "again": struct,
        "m": pa.map_(pa.string(), pa.list_(pa.field("element", pa.int64()))),
        "u": pa.string(),
        "uuid": pa.string(),
    }


def test_a_recursive_type_becomes_json() -> None:
    tree = record(("label", "string"), ("child", ["null", "t.Event"]))
    assert types(tree) == {"label": pa.string(), "child": pa.string()}


def test_a_schema_that_is_no_record_is_one_column() -> None:
    assert types('"string"') == {"value": pa.string()}


@pytest.mark.parametrize("name", ["_offset", "_Partition", "_timestamp"])
def test_the_system_columns_names_are_taken(name: str) -> None:
    with pytest.raises(SchemaRefused, match=name):
        writer_columns(record((name, "long")))


def test_a_table_grows_by_name_and_keeps_its_order() -> None:
    table = union(pa.schema([]), writer_columns(record(("a", "int"), ("b", "string"))).fields())
    wider = union(table, writer_columns(record(("c", "double"), ("b", "string"))).fields())
    assert wider.names == ["a", "b", "c"]
    assert covers(wider, writer_columns(record(("b", "string"))).fields())
    assert not covers(table, writer_columns(record(("c", "double"))).fields())


def test_a_struct_grows_inside() -> None:
    def with_inner(*fields: tuple[str, Any]) -> list[pa.Field]:
        return writer_columns(record(("s", json.loads(record(*fields, name="Inner"))))).fields()

    wider = union(pa.schema(with_inner(("x", "int"))), with_inner(("x", "int"), ("y", "string")))
    assert wider.field("s").type == pa.struct([("x", pa.int64()), ("y", pa.string())])


def test_whole_numbers_fit_a_table_of_fractions_and_not_the_other_way() -> None:
    fractions = pa.schema([("n", pa.float64())])
    assert union(fractions, [pa.field("n", pa.int64())]) == fractions
    with pytest.raises(SchemaRefused, match="'n' is double in the writer's schema and int64 in the table"):
        union(pa.schema([("n", pa.int64())]), [pa.field("n", pa.float64())])


def test_names_that_differ_only_in_capitals_are_refused() -> None:
    with pytest.raises(SchemaRefused, match="capitals"):
        union(pa.schema([("Path", pa.string())]), [pa.field("path", pa.string())])


@pytest.mark.parametrize("name", ["_file", "_partition", "_Row_ID"])
def test_iceberg_s_own_names_are_refused(name: str) -> None:
    """Fault: Spark can read no row of a table with a column of such a name (`tests/clients/iceberg`)."""
    schema = {"type": "record", "name": "E", "fields": [{"name": name, "type": "int"}]}
    with pytest.raises(SchemaRefused, match=name):
        writer_columns(json.dumps(schema))


def test_the_names_that_the_logger_warns_of_are_those_of_the_tables_columns() -> None:
    assert tuple(SYSTEM_COLUMNS.names) == OF_THE_RECORD
