"""Checks whether a JSON value is a default of a type. Source: the Avro specification's table of field default values. Avro
1.12 allows any branch for a union's default, and so does this code.
"""

from typing import Any

from .avro_types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union, word_for

_INT = range(-(1 << 31), 1 << 31)
_LONG = range(-(1 << 63), 1 << 63)
_FLOAT_WORDS = ("NaN", "Infinity", "-Infinity")


def why_not_a_value(value: Any, avro_type: AvroType) -> str | None:
    """Return why `value` is not a default of the type; None if it is one."""
    if _fits(value, avro_type):
        return None
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} is no {word_for(avro_type)}"


def _fits(value: Any, avro_type: AvroType) -> bool:
    match avro_type:
        case Primitive():
            return _fits_primitive(value, avro_type.kind)
        case Array():
            return isinstance(value, list) and all(_fits(item, avro_type.items) for item in value)
        case Map():
            return isinstance(value, dict) and all(_fits(item, avro_type.values) for item in value.values())
        case Union():
            return any(_fits(value, branch) for branch in avro_type.branches)
        case Enum():
            return value in avro_type.symbols
        case Fixed():
            return _is_byte_text(value) and len(value) == avro_type.size
        case Record():
            return isinstance(value, dict) and all(
                _fits(value[field.name], field.type) if field.name in value else field.has_default for field in avro_type.fields
            )


def _fits_primitive(value: Any, kind: str) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int":
            return is_number and isinstance(value, int) and value in _INT
        case "long":
            return is_number and isinstance(value, int) and value in _LONG
        case "float" | "double":
            return is_number or value in _FLOAT_WORDS
        case "bytes":
            return _is_byte_text(value)
        case _:
            return isinstance(value, str)


def _is_byte_text(value: Any) -> bool:
    """Return whether the value is JSON's form of bytes: text whose characters U+0000 to U+00FF are the bytes."""
    return isinstance(value, str) and all(ord(letter) < 256 for letter in value)
