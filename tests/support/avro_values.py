"""Values of every kind that Avro has, what a load must make of them, and bodies as Apache's `avro` library writes them."""

import io
import json
import math
from decimal import Decimal
from typing import Any

import avro.io
import avro.schema

MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIXED_MONEY = {"type": "fixed", "name": "Money", "size": 5, "logicalType": "decimal", "precision": 11, "scale": 3}
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"], "default": "RED"}
NEXT = {"name": "next", "type": ["null", "Point"]}
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "double"}, NEXT]}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
COUNTS = {"type": "map", "values": "long"}
MAPS = {"type": "array", "items": {"type": "map", "values": "boolean"}}
MANY_SCRIPTS = {"ключ": 1, "鍵\U0001f511": -2, "": 3}
PLAIN: dict[str, tuple[Any, Any, Any]] = {
    "a union of two kinds": (["null", "long", "string"], "7", '"7"'),
    "a union of two kinds, a number": (["null", "long", "string"], 7, "7"),
    "a union of two kinds, null": (["null", "long", "string"], None, None),
    "a union with one kind": (["null", "long"], -(2**63), -(2**63)),
    "a decimal": (MONEY, Decimal("-12345.67"), Decimal("-12345.67")),
    "a decimal of nothing": (MONEY, Decimal("0.00"), Decimal("0.00")),
    "a decimal of fixed size": (FIXED_MONEY, Decimal("-12345678.901"), Decimal("-12345678.901")),
    "a time in nanoseconds": (NANOS, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
    "an enum with a default": (COLOUR, "GREEN", "GREEN"),
    "a map with keys of every script": (COUNTS, MANY_SCRIPTS, [*MANY_SCRIPTS.items()]),
    "an array of maps": (MAPS, [{}, {"a": True}], [[], [("a", True)]]),
    "no number": ("double", math.nan, math.nan),
    "minus nothing": ("double", -0.0, -0.0),
    "a small float": ("float", 1.401298464324817e-45, 1.401298464324817e-45),
    "text of every script": ("string", "a\u0000ß鍵\U0001f511", "a\u0000ß鍵\U0001f511"),
    "bytes": ("bytes", b"\x00\xff", b"\x00\xff"),
    "a record in itself": (POINT, {"x": -0.0, "next": {"x": 1.5, "next": None}}, {"x": -0.0, "next": '{"next": null, "x": 1.5}'}),
}  # fmt: skip
"""Name → type, value as it is written, value as the table has it."""


def written(schema: Any, event: Any) -> bytes:
    """Return the body as Apache's library writes it, and check that it reads it back so."""
    # Plain longs for what it would take datetimes for, and no check of defaults: those are the reader's.
    parsed = avro.schema.parse(json.dumps(_numbers_for_times(schema)))
    out = io.BytesIO()
    avro.io.DatumWriter(parsed).write(event, avro.io.BinaryEncoder(out))
    read = avro.io.DatumReader(parsed).read(avro.io.BinaryDecoder(io.BytesIO(out.getvalue())))
    assert repr(read) == repr(event)
    return out.getvalue()


def _numbers_for_times(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_numbers_for_times(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _numbers_for_times(one) if name in ("type", "items", "values") else one for name, one in schema.items()}
    if "fields" in kept:
        kept["fields"] = [{**one, "type": _numbers_for_times(one["type"])} for one in kept["fields"]]
    if str(kept.get("logicalType", "")).startswith(("timestamp", "date")):
        del kept["logicalType"]
    return kept


def record_of(*fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields], **more}
