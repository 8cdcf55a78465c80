"""Plans how C (`headrace_native`) makes an instance of a reader's dataclass of an Avro body of a flat schema. Pure.

Flat: a record of plain values, each of which may be null. C takes only what every decoder understands in the same way. For
anything else it returns None, and `event_decoder` decides with fastavro, so a body has one meaning.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from ...runtime.native import native
from ...sdk.forms import class_fields
from ...wire.schema_id import SIZE

_KINDS = {"int": b"l", "long": b"l", "float": b"f", "double": b"d", "boolean": b"b", "string": b"s", "bytes": b"y"}
_TAKES = {b"l": int, b"m": int, b"f": float, b"d": float, b"b": bool, b"s": str, b"y": bytes}
_NEVER, _FIRST, _SECOND, _IS_ODD = 0, 1, 2, 4
_SKIPPED = 255
MOST_ARGUMENTS = 254


def flat_event(event_class: type | None, schema: Any) -> Callable[[bytes], Any] | None:
    """Return what makes an instance of a framed payload, or None for one that it does not decide. None: C is not there, or class
    or schema are not flat.
    """
    make = getattr(native, "flat_event", None)  # a module of before 2026-11-27 lacks it
    if make is None or event_class is None or not dataclasses.is_dataclass(event_class):
        return None
    if not isinstance(schema, dict) or schema.get("type") != "record" or len(schema["fields"]) > MOST_ARGUMENTS:
        return None
    wanted = _positions(event_class, {field["name"] for field in schema["fields"]})
    if wanted is None:
        return None
    types = {one.name: one.python_type for one in class_fields.fields_of(event_class)}
    plan = b""
    for field in schema["fields"]:
        kind, nulls = _kind(field["type"])
        place = wanted.get(field["name"])
        if kind is None:
            return None
        if place is not None:
            python_type, may_be_none = class_fields.without_none(class_fields.bare(types[field["name"]])[0])
            if class_fields.bare(python_type)[0] is not _TAKES[kind]:
                return None
            if nulls and not may_be_none:
                nulls |= _IS_ODD
        plan += kind + bytes((nulls, _SKIPPED if place is None else place))
    return partial(make, event_class, len(wanted), plan, SIZE)


def _positions(event_class: type, written: set[str]) -> dict[str, int] | None:
    """Return field → which argument of the class it is; None if they cannot all be given by position."""
    found: dict[str, int] = {}
    has_gap = False
    for one in dataclasses.fields(event_class):
        if not one.init:
            continue
        if one.name not in written:
            has_gap = True  # its default, as of those after it
        elif has_gap or one.kw_only:
            return None
        else:
            found[one.name] = len(found)
    return found


def _kind(schema: Any) -> tuple[bytes | None, int]:
    nulls = _NEVER
    if isinstance(schema, list):
        if len(schema) != 2 or "null" not in schema:
            return None, _NEVER
        nulls = _FIRST if schema[0] == "null" else _SECOND
        schema = schema[1 - schema.index("null")]
    if isinstance(schema, dict):
        if schema.get("type") == "long" and schema.get("logicalType") == "timestamp-millis":
            return b"m", nulls
        if schema.keys() != {"type"}:
            return None, nulls
        schema = schema["type"]
    return (_KINDS.get(schema) if isinstance(schema, str) else None), nulls
