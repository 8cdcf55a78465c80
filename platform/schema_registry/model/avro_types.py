"""Avro's types as a graph of values. Records may contain themselves, so their fields are set after they exist.

Knows nothing of JSON text, of the registry or of data. Source: the Avro 1.12 specification, "Schema Declaration".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_WORDS = 20
"""So many of a list are in a message."""
Properties = tuple[tuple[str, Any], ...]
"""Attributes to which Avro gives no meaning on this type, in the order of the text; `logicalType` is among them."""


class _Absent:
    """The default of a field that has none (None is the JSON null)."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """null, boolean, int, long, float, double, bytes or string."""

    kind: str
    properties: Properties = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    items: "AvroType"
    properties: Properties = ()
    kind: str = "array"


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    values: "AvroType"
    properties: Properties = ()
    kind: str = "map"


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    branches: tuple["AvroType", ...]
    kind: str = "union"
    properties: Properties = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    name: str
    size: int
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Properties = ()
    kind: str = "fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Enum:
    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Properties = ()
    kind: str = "enum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    type: "AvroType"
    default: Any = ABSENT
    aliases: tuple[str, ...] = ()
    order: str = "ascending"
    doc: str | None = None
    properties: Properties = ()

    @property
    def has_default(self) -> bool:
        return self.default is not ABSENT


@dataclass(slots=True, kw_only=True, eq=False)
class Record:
    """Equal only to itself: it may contain itself. The parser fills `fields` once."""

    name: str
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Properties = ()
    is_error: bool = False
    fields: tuple[Field, ...] = field(default=(), repr=False)
    kind: str = "record"


Named = Record | Enum | Fixed
AvroType = Primitive | Array | Map | Union | Fixed | Enum | Record


def short_name(full_name: str) -> str:
    """Return the last part of a full name. Named types of writer and reader are matched by it."""
    return full_name.rpartition(".")[2]


def namespace_of(full_name: str) -> str:
    """Return the part of a full name before its last dot, "" for none."""
    return full_name.rpartition(".")[0]


def logical_type(avro_type: AvroType) -> str | None:
    """Return the type's `logicalType`, or None."""
    word = dict(avro_type.properties).get("logicalType")
    return word if isinstance(word, str) else None


def word_for(avro_type: AvroType) -> str:
    """Return the type's name in messages: its kind, and its own name if it has one."""
    if isinstance(avro_type, Fixed | Enum | Record):
        return f"{avro_type.kind} {avro_type.name}"
    if isinstance(avro_type, Union):
        return f"union [{first_words([word_for(branch) for branch in avro_type.branches[: MOST_WORDS + 1]], avro_type.branches)}]"
    return avro_type.kind


def first_words(words: Sequence[str], of: Sequence[object] | None = None) -> str:
    """Return the first words for a message, and how many are left out (of as many as `of` has)."""
    count = len(words if of is None else of)
    return ", ".join(words[:MOST_WORDS]) + (f" and {count - MOST_WORDS} more" if count > MOST_WORDS else "")
