"""From an Avro schema to the columns of a PostgreSQL table, and from an event to their values. Pure.

Numbers, texts, times and such become columns of their types, everything else `jsonb`. All may be null: a field that a later
schema adds is null in earlier rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...reader.decoding.json_value import json_value
from .sink import SinkRefused

PLACE = {"_topic": "text", "_partition": "integer", "_offset": "bigint"}
"""The primary key: where the record stands."""
OTHERS = {"_timestamp": "timestamp with time zone", "_key": "bytea"}
JSON = "jsonb"
_PRIMITIVE = {
    "string": "text", "int": "integer", "long": "bigint", "float": "real", "double": "double precision", "boolean": "boolean",
    "bytes": "bytea",
}  # fmt: skip
_LOGICAL = {
    "timestamp-millis": "timestamp with time zone", "timestamp-micros": "timestamp with time zone", "date": "date",
    "local-timestamp-millis": "timestamp without time zone", "local-timestamp-micros": "timestamp without time zone",
    "time-millis": "time without time zone", "time-micros": "time without time zone", "decimal": "numeric", "uuid": "uuid",
}  # fmt: skip
_WIDER = {
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "real": ("double precision",),
    "text": ("character varying",),
    "uuid": ("text",),
}
"""Types of an existing column that take a field's values too."""
MOST_NAME_BYTES = 63


class Column(NamedTuple):
    """A field's column."""

    field: str
    type: str


def columns_of(schema: Mapping[str, Any]) -> list[Column]:
    """Return the columns of a record schema's fields. Raises SinkRefused: no record, or names that can be no columns."""
    if schema.get("type") != "record":
        raise SinkRefused(f"events of Avro type {schema.get('type')!r} have no fields to make columns of: only records do")
    columns = [Column(field["name"], _type(field["type"])) for field in schema["fields"]]
    for one in columns:
        if one.field in PLACE or one.field in OTHERS or len(one.field.encode()) > MOST_NAME_BYTES:
            raise SinkRefused(f"field {one.field!r} can be no column: the sink's own have this name, or it is too long")
    return columns


def values_of(event: Mapping[str, Any], columns: Sequence[Column]) -> list[tuple[Any, bool]]:
    """Return the columns' values in order, each with whether it is JSON."""
    return [
        (json_value(event.get(one.field)), event.get(one.field) is not None)
        if one.type == JSON
        else (event.get(one.field), False)
        for one in columns
    ]


def takes(existing: str, wanted: str) -> bool:
    """Return whether a column of type `existing` takes values of `wanted`."""
    return existing == wanted or existing in _WIDER.get(wanted, ())


def _type(avro: Any) -> str:
    if isinstance(avro, list):
        others = [one for one in avro if one != "null"]
        return _type(others[0]) if len(others) == 1 else JSON
    if isinstance(avro, str):
        return _PRIMITIVE.get(avro, JSON)
    logical = avro.get("logicalType")
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    kind = avro["type"]
    if kind == "enum":
        return "text"
    if kind == "fixed":
        return "bytea"
    return _type(kind) if isinstance(kind, str | list | dict) and kind not in ("record", "array", "map") else JSON
