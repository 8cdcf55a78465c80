"""Checks whether a JSON value is a default of a type. Source: the Avro specification's table of field default values. Avro
1.12 allows any branch for a union's default, and so does this code.
"""

from typing import Any

from ..errors import InvalidSchema
from .avro_types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union, word_for

_INT = range(-(1 << 31), 1 << 31)
_LONG = range(-(1 << 63), 1 << 63)
_FLOAT_WORDS = ("NaN", "Infinity", "-Infinity")


STEP_LIMIT = 200_000
"""The most comparisons of a value with a type for all defaults of a schema, a fraction of a second's work."""
BYTES_A_STEP = 64
"""How many characters of a text are checked in one step."""


class DefaultValues:
    """Checks the defaults of one schema, and counts its steps: a union tries every branch, in every item, at every depth."""

    def __init__(self) -> None:
        self.steps = 0
        self._symbols: dict[int, tuple[Enum, frozenset[str]]] = {}
        """By the enum's address; the enum is kept, so that the address stays its own."""

    def why_not_a_value(self, value: Any, avro_type: AvroType) -> str | None:
        """Return why `value` is not a default of the type; None if it is one. Raises `InvalidSchema` beyond the limit."""
        if self._fits(value, avro_type):
            return None
        text = repr(value)
        return f"{text if len(text) <= 60 else text[:57] + '...'} is no {word_for(avro_type)}"

    def _spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > STEP_LIMIT:
            raise InvalidSchema(
                f"checking the defaults takes more than {STEP_LIMIT} steps: make them, or their unions, smaller", error_code=42209
            )

    def _fits(self, value: Any, avro_type: AvroType) -> bool:
        self._spend(1)
        match avro_type:
            case Primitive():
                return self._fits_primitive(value, avro_type.kind)
            case Array():
                return isinstance(value, list) and all(self._fits(item, avro_type.items) for item in value)
            case Map():
                return isinstance(value, dict) and all(self._fits(item, avro_type.values) for item in value.values())
            case Union():
                return any(self._fits(value, branch) for branch in avro_type.branches)
            case Enum():
                return isinstance(value, str) and value in self._symbols_of(avro_type)
            case Fixed():
                return isinstance(value, str) and len(value) == avro_type.size and self._is_byte_text(value)
            case Record():
                if not isinstance(value, dict):
                    return False
                self._spend(len(avro_type.fields))
                return all(
                    self._fits(value[field.name], field.type) if field.name in value else field.has_default
                    for field in avro_type.fields
                )

    def _symbols_of(self, enum: Enum) -> frozenset[str]:
        if id(enum) not in self._symbols:
            self._symbols[id(enum)] = enum, frozenset(enum.symbols)
        return self._symbols[id(enum)][1]

    def _fits_primitive(self, value: Any, kind: str) -> bool:
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
                return self._is_byte_text(value)
            case _:
                return isinstance(value, str)

    def _is_byte_text(self, value: Any) -> bool:
        """Return whether the value is JSON's form of bytes: text whose characters U+0000 to U+00FF are the bytes."""
        if not isinstance(value, str):
            return False
        self._spend(len(value) // BYTES_A_STEP)
        return value.isascii() or all(ord(letter) < 256 for letter in value)
