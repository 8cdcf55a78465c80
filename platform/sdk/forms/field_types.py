"""Types of Python as types of Avro: the scalars, enums and decimals that a field of a typed event may have. Pure.

A class is a promise about its values, so each converter takes values of just its type and refuses others by the field's path.
"""

import math
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from typing import Any

from ..errors import EventRefused, SchemaRefused

Convert = Callable[[Any], Any]
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
"""What Avro allows as a name."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MILLISECOND = timedelta(milliseconds=1)
MOST_DIGITS = 38
"""What a decimal column of the warehouse holds."""


@dataclass(frozen=True, slots=True)
class DecimalDigits:
    """`Annotated[Decimal, DecimalDigits(12, 2)]`: at most 12 digits, 2 of them behind the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroField:
    """A type as Avro writes it, and how its values get there."""

    avro: Any
    convert: Convert | None = None
    """None: the encoder takes the value as it is."""
    to_default: Convert | None = None
    """From a value to its default in a schema's JSON, where `convert` does not give it."""

    def default_of(self, value: Any) -> Any:
        """Return a default of the class as JSON holds it. Raises `EventRefused` when it does not fit its own type."""
        convert = self.to_default or self.convert
        return value if convert is None else convert(value)


PLAIN: dict[Any, Any] = {str: "string", int: "long", float: "double", bool: "boolean"}
INSTEAD: dict[Any, str] = {
    Decimal: "say how many digits: Annotated[Decimal, DecimalDigits(12, 2)]",
    timedelta: "use an int, with the unit in its name (wait_ms)",
    time: "use a datetime, or a str",
    list: "say of what: list[str]",
    dict: "say of what: dict[str, int]",
    object: "give it one type, or use a str that holds JSON",
    Any: "give it one type, or use a str that holds JSON",
    tuple: "use a list, or a nested dataclass",
    set: "use a list",
    frozenset: "use a list",
    complex: "use two floats",
    Enum: "use a class of your own that derives from Enum",
}
"""What to use for types that have no place in a schema."""


def scalar(python_type: Any, path: str) -> AvroField | None:
    """Return the Avro type of a type without parts; None for all others."""
    if python_type in PLAIN:
        return AvroField(avro=PLAIN[python_type], to_default=_plain_default(python_type, path))
    if python_type is bytes:
        return AvroField(avro="bytes", to_default=lambda value: _plain_default(bytes, path)(value).decode("latin-1"))
    if python_type is datetime:
        return AvroField(avro={"type": "long", "logicalType": "timestamp-millis"}, convert=_to_ms(path))
    if python_type is date:
        return AvroField(avro={"type": "int", "logicalType": "date"}, convert=_to_days(path))
    if python_type is uuid.UUID:
        return AvroField(avro={"type": "string", "logicalType": "uuid"}, convert=_to_uuid_text(path))
    return None


def enum(python_type: type[Enum], path: str) -> AvroField:
    """Return the Avro enum of an Enum: its members' names. Raises `SchemaRefused`."""
    symbols = [member.name for member in python_type if member.name is not None]
    if issubclass(python_type, Flag) or not symbols or not all(NAME.match(symbol) for symbol in symbols):
        raise SchemaRefused(
            f"field {path!r} is {python_type.__name__}: an Avro enum has one of several names of letters, digits and _; "
            "rename the members, or use a str or an int"
        )

    def convert(value: Any) -> str:
        if type(value) is not python_type:
            raise EventRefused(path, value, f"a member of {python_type.__name__}")
        return str(value.name)

    return AvroField(avro={"type": "enum", "name": python_type.__name__, "symbols": symbols}, convert=convert)


def literal(values: tuple[Any, ...], name: str, path: str) -> AvroField:
    """Return the Avro enum of a Literal's words, under `name`. Raises `SchemaRefused`."""
    wrong = [value for value in values if not (isinstance(value, str) and NAME.match(value))]
    if wrong:
        raise SchemaRefused(
            f"field {path!r} is a Literal with {wrong[0]!r}: an Avro enum has words of letters, digits and _; use a str"
        )

    def to_default(value: Any) -> Any:
        if value not in values:
            raise EventRefused(path, value, f"one of {', '.join(values)}")
        return value

    return AvroField(avro={"type": "enum", "name": name, "symbols": list(values)}, to_default=to_default)


def decimal(digits: DecimalDigits, path: str) -> AvroField:
    """Return the Avro decimal of an annotated Decimal. Raises `SchemaRefused`."""
    precision, scale = digits.precision, digits.scale
    if not (1 <= precision <= MOST_DIGITS and 0 <= scale <= precision):
        raise SchemaRefused(f"field {path!r} has {digits}: precision is from 1 to {MOST_DIGITS}, scale from 0 to the precision")
    avro = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}

    def convert(value: Any) -> bytes:
        unscaled = _unscaled(value, precision, scale) if isinstance(value, Decimal) else None
        if unscaled is None:
            raise EventRefused(path, value, f"a Decimal of at most {precision} digits, {scale} of them behind the point")
        return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)

    return AvroField(avro=avro, convert=convert, to_default=lambda value: convert(value).decode("latin-1"))


def _unscaled(value: Decimal, precision: int, scale: int) -> int | None:
    """Return value x 10^scale; None when it is not a whole number or has more digits than `precision`."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    number = int("".join(map(str, digits)))
    if number == 0:
        return 0
    # Before anything is computed: 1E+999999999 would fill the memory.
    if value.adjusted() + 1 + scale > precision or -(exponent + scale) > len(digits):
        return None
    shift = exponent + scale
    number, rest = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    return None if rest else -number if sign else number


def _plain_default(python_type: type, path: str) -> Convert:
    def to_default(value: Any) -> Any:
        fits = type(value) is python_type or (python_type is float and type(value) is int)
        if not fits or (python_type is float and not math.isfinite(value)):
            raise EventRefused(path, value, f"a {python_type.__name__} that JSON can hold")
        return value

    return to_default


def _to_ms(path: str) -> Convert:
    def convert(value: Any) -> int:
        if not isinstance(value, datetime) or value.tzinfo is None:
            raise EventRefused(path, value, "an aware datetime: one with tzinfo, datetime.now(UTC) for example")
        return (value - _EPOCH) // _MILLISECOND

    return convert


def _to_days(path: str) -> Convert:
    def convert(value: Any) -> int:
        if not isinstance(value, date) or isinstance(value, datetime):
            raise EventRefused(path, value, "a date")
        return value.toordinal() - _EPOCH_DAY

    return convert


def _to_uuid_text(path: str) -> Convert:
    def convert(value: Any) -> str:
        if not isinstance(value, uuid.UUID):
            raise EventRefused(path, value, "a uuid.UUID")
        return str(value)

    return convert
