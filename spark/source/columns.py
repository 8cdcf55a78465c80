"""A writer's Avro schema as columns of the warehouse, and what becomes of a table when writers' schemas differ. Pure.

    Avro                               column                     note
    boolean                            bool
    int, long                          int64                      one width: an int that becomes a long changes nothing
    float, double                      float64                    likewise
    string, enum, uuid                 string
    bytes, fixed                       binary
    timestamp-millis, -micros          timestamp(us, UTC)
    date                               date
    decimal(p <= 38)                   decimal(p, s)
    record, array, map                 struct, list, map<string>
    [null, X]                          X
    other unions, recursive types      string holding JSON        a column has one type
    other logical types                their underlying type

Every column may be null: a schema of tomorrow may lack what today's has. Not a record at the top: one column, `value`.
Source: Avro specification 1.11; Iceberg's type promotion (which allows no long -> double, so widths are settled here).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...schema_registry.model.column_names import clash
from ..errors import WarehouseError

SYSTEM_COLUMNS = pa.schema(
    [
        pa.field("_topic_partition", pa.int32()),
        pa.field("_offset", pa.int64()),
        pa.field("_timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("_schema_id", pa.int32()),
    ]
)
"""The columns of every table besides the event's own: the record's address, its event time, its writer's schema."""

HOUR_FIELD = "_timestamp-hour"
"""Rows are partitioned by it. No field of an event has this name, since Avro allows no hyphen."""
HOUR_US = 3_600_000_000

Convert = Callable[[Any], Any]
_PRIMITIVES = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_KEPT_LOGICAL = ("decimal",)
"""Logical types that fastavro decodes. For all others the plain number or text is faster and cannot overflow."""


class SchemaRefused(WarehouseError):
    """A writer's schema cannot become columns, or contradicts the table's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One field of a writer's schema."""

    name: str
    decoded: pa.DataType
    """The type of fastavro's values before the cast to the table's type: timestamps in the writer's own unit, say."""
    convert: Convert | None
    """Applied to each value before it becomes Arrow; None if not needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterColumns:
    """A writer's schema, prepared for decoding."""

    columns: tuple[Column, ...]
    avro: Any
    """The schema for fastavro, without the logical types that it does not decode."""
    is_record: bool

    def fields(self) -> list[pa.Field]:
        """Return the table's fields that these columns need."""
        return [pa.field(column.name, settled(column.decoded)) for column in self.columns]


def writer_columns(schema: str) -> WriterColumns:
    """Return the columns of an Avro schema's JSON. Raises SchemaRefused for names that a table cannot have."""
    parsed = json.loads(schema)
    names: dict[str, Any] = {}
    is_record = isinstance(parsed, dict) and parsed.get("type") in ("record", "error")
    if is_record:
        scope = _declare(parsed, "", names)
        path = (_full_name(parsed, ""),)
        columns = tuple(_column(one["name"], one["type"], scope, names, path) for one in parsed["fields"])
    else:
        columns = (_column("value", parsed, "", names, ()),)
    _check_names([column.name for column in columns])
    return WriterColumns(columns=columns, avro=_plain(parsed), is_record=is_record)


def _check_names(names: list[str]) -> None:
    if fault := clash(names):
        raise SchemaRefused(fault)


def _full_name(schema: Mapping[str, Any], scope: str) -> str:
    name = str(schema.get("name", ""))
    space = str(schema.get("namespace", scope) or "")
    return name if "." in name or not space else f"{space}.{name}"


def _declare(schema: Mapping[str, Any], scope: str, names: dict[str, Any]) -> str:
    """Register a named type and return the namespace inside it."""
    full = _full_name(schema, scope)
    names[full] = schema
    return full.rpartition(".")[0]


def _column(name: str, schema: Any, scope: str, names: dict[str, Any], path: tuple[str, ...]) -> Column:
    decoded, convert = _type(schema, scope, names, path)
    return Column(name=name, decoded=decoded, convert=convert)


def _type(schema: Any, scope: str, names: dict[str, Any], path: tuple[str, ...]) -> tuple[pa.DataType, Convert | None]:
    """Return the Arrow type of fastavro's values, and the conversion of each value. `path` names the enclosing records."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        return _type(branches[0], scope, names, path) if len(branches) == 1 else (pa.string(), as_json)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema], None
        full = schema if "." in schema or not scope else f"{scope}.{schema}"
        full = full if full in names else schema
        if full in path or full not in names:
            return pa.string(), as_json
        return _type(names[full], full.rpartition(".")[0], names, path)
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _type(kind, scope, names, path)
    match kind:
        case "record" | "error":
            return _struct(schema, scope, names, path)
        case "enum":
            _declare(schema, scope, names)
            return pa.string(), None
        case "fixed":
            _declare(schema, scope, names)
            return _decimal(schema) or pa.binary(), None
        case "array":
            item, convert = _type(schema["items"], scope, names, path)
            return pa.list_(pa.field("element", item)), None if convert is None else _each(convert)
        case "map":
            item, convert = _type(schema["values"], scope, names, path)
            return pa.map_(pa.string(), item), None if convert is None else _each_value(convert)
    logical = schema.get("logicalType")
    if kind == "long" and logical in ("timestamp-millis", "timestamp-micros"):
        return pa.timestamp("ms" if logical == "timestamp-millis" else "us", tz="UTC"), None
    if kind == "int" and logical == "date":
        return pa.date32(), None
    if kind == "bytes" and logical == "decimal":
        return _decimal(schema) or pa.binary(), None
    return _type(kind, scope, names, path)


def _struct(
    schema: Mapping[str, Any], scope: str, names: dict[str, Any], path: tuple[str, ...]
) -> tuple[pa.DataType, Convert | None]:
    full = _full_name(schema, scope)
    inside = _declare(schema, scope, names)
    if not schema["fields"]:
        return pa.string(), as_json  # Parquet has no struct without fields
    fields, converts = [], {}
    for one in schema["fields"]:
        item, convert = _type(one["type"], inside, names, (*path, full))
        fields.append(pa.field(one["name"], item))
        if convert is not None:
            converts[one["name"]] = convert
    return pa.struct(fields), _each_field(converts) if converts else None


def _decimal(schema: Mapping[str, Any]) -> pa.DataType | None:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or not isinstance(precision, int) or not isinstance(scale, int):
        return None
    return pa.decimal128(precision, scale) if 0 < precision <= 38 and 0 <= scale <= precision else None


def as_json(value: Any) -> str | None:
    """Return a value that has no single type as JSON; bytes as text of their code points, as in Avro's own JSON."""
    return None if value is None else json.dumps(value, default=_json_default, sort_keys=True, ensure_ascii=False)


def _json_default(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _each(convert: Convert) -> Convert:
    return lambda values: None if values is None else [convert(value) for value in values]


def _each_value(convert: Convert) -> Convert:
    return lambda values: None if values is None else {key: convert(value) for key, value in values.items()}


def _each_field(converts: Mapping[str, Convert]) -> Convert:
    def convert(value: Any) -> Any:
        return None if value is None else {**value, **{name: change(value[name]) for name, change in converts.items()}}

    return convert


def _plain(schema: Any) -> Any:
    """Return the schema without the logical types that are not kept; a decoder needs no defaults and no other attributes."""
    if isinstance(schema, list):
        return [_plain(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = dict(schema)
    if plain.get("logicalType") not in _KEPT_LOGICAL or _decimal(plain) is None:
        plain.pop("logicalType", None)
    for inner in ("type", "items", "values"):
        if inner in plain:
            plain[inner] = _plain(plain[inner])
    if "fields" in plain:
        # A field's default is left out: decoding by the writer's schema needs none, and a wrong one must not block its data.
        plain["fields"] = [
            {key: _plain(value) if key == "type" else value for key, value in one.items() if key != "default"}
            for one in plain["fields"]
        ]
    return plain


def settled(kind: pa.DataType) -> pa.DataType:
    """Return the table's type for a decoded or stored one: timestamps in microseconds, one name for each type."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", settled(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), settled(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, settled(one.type)) for one in kind.fields])
    return kind


def union(table: pa.Schema, fields: Iterable[pa.Field]) -> pa.Schema:
    """Return the event columns of `table`, followed by those that `fields` add, by name.

    Raises SchemaRefused if they disagree.
    """
    merged = {field.name: field for field in table}
    folded = {name.lower(): name for name in merged}
    for field in fields:
        twin = folded.get(field.name.lower())
        if twin is None:
            merged[field.name] = field
            folded[field.name.lower()] = field.name
        elif twin != field.name:
            raise SchemaRefused(
                f"field {field.name!r} differs only in capitals from the table's column {twin!r}: rename one of them"
            )
        else:
            merged[twin] = pa.field(twin, _joined(twin, merged[twin].type, field.type))
    return pa.schema(merged.values())


def _joined(name: str, table: pa.DataType, writer: pa.DataType) -> pa.DataType:
    if table == writer:
        return table
    if pa.types.is_struct(table) and pa.types.is_struct(writer):
        return pa.struct(list(union(pa.schema(table.fields), writer.fields)))
    if pa.types.is_list(table) and pa.types.is_list(writer):
        return pa.list_(pa.field("element", _joined(f"{name}[]", table.value_type, writer.value_type)))
    if pa.types.is_map(table) and pa.types.is_map(writer):
        return pa.map_(pa.string(), _joined(f"{name}[]", table.item_type, writer.item_type))
    if pa.types.is_float64(table) and pa.types.is_int64(writer):
        return table
    raise SchemaRefused(
        f"field {name!r} is {writer} in the writer's schema and {table} in the table: give the new field another name"
    )


def covers(table: pa.Schema, fields: Iterable[pa.Field]) -> bool:
    """Return whether the table has every field already. Raises SchemaRefused if they disagree."""
    return bool(union(table, fields) == table)
