"""Random schemas, and random values for them: plain ones that fit, and whatever else an application may hand over."""

import datetime
import decimal
import enum
import itertools
import types
import uuid
from collections import OrderedDict
from typing import Any

from hypothesis import strategies as st

from headrace.sdk import event_schema

Schema = Any
Values = st.SearchStrategy[Any]

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_INT = st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3)
_LONG = st.integers(-(2**63), 2**63 - 1) | _INT
_TIMES = st.datetimes(
    min_value=datetime.datetime(1971, 1, 1),
    max_value=datetime.datetime(2100, 1, 1),
    timezones=st.sampled_from([None, datetime.UTC]),
)
_PRIMITIVES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": _INT,
    "long": _LONG,
    "float": st.floats(width=32) | st.integers(-1000, 1000),
    "double": st.floats() | st.integers(-1000, 1000),
    "string": _TEXT,
    "bytes": st.binary(max_size=8),
}
_LOGICAL = {
    ("long", "timestamp-millis"): _TIMES | _LONG,
    ("long", "timestamp-micros"): _TIMES | _LONG,
    ("long", "local-timestamp-millis"): _TIMES | _LONG,
    ("long", "local-timestamp-micros"): _TIMES | _LONG,
    ("int", "date"): st.dates() | _INT | st.dates().map(str) | _TIMES,
    ("int", "time-millis"): st.times() | _INT,
    ("long", "time-micros"): st.times() | _LONG,
    ("string", "uuid"): st.uuids() | _TEXT,
    ("string", "of the application"): _TEXT,
}
_DECIMALS = st.decimals(-99, 99, places=2) | st.binary(max_size=4)


class Colour(enum.StrEnum):
    """A string whose hash is another string's."""

    RED = "A"
    BLUE = "B"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2**40


class LoudText(str):
    """Text that encodes itself otherwise."""

    def encode(self, *_: Any) -> bytes:
        return b"LOUD"


ODD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=4),
    st.just("\ud800"),
    st.binary(max_size=4),
    st.binary(max_size=4).map(bytearray),
    st.sampled_from(
        [Colour.RED, Colour.BLUE, Level.LOW, Level.HIGH, LoudText("quiet"), "A", "B", (1, 2), ("string", "x"), ("int", 5)]
    ),
    st.lists(st.integers(0, 3), max_size=3),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.dictionaries(st.text("abc", max_size=2) | st.integers(0, 2), st.integers(0, 3), max_size=3),
    st.dictionaries(st.text("abc", max_size=2), st.integers(0, 3), max_size=3).map(OrderedDict),
    st.dictionaries(st.text("abc", max_size=2), st.integers(0, 3), max_size=3).map(types.MappingProxyType),
    _TIMES,
    st.dates(),
    st.times(),
    st.decimals(allow_nan=True),
    st.uuids(),
    st.just({1, 2}),
    st.just(object()),
    st.just(decimal.Decimal("1E+5")),
    st.just(uuid.UUID(int=7)),
)


class _Names:
    """Each named type needs a name of its own."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def __call__(self) -> str:
        return f"Type{next(self._count)}"


@st.composite
def _type_and_values(
    draw: st.DrawFn, names: _Names, depth: int, *, in_union: bool = False
) -> tuple[Schema, st.SearchStrategy[Any]]:
    kinds = ["primitive", "primitive", "logical", "decimal", "enum", "fixed"]
    if depth > 0:
        kinds += ["array", "map", "record"] + ["union", "nullable"] * (not in_union)
    match draw(st.sampled_from(kinds)):
        case "primitive":
            name = draw(st.sampled_from(sorted(_PRIMITIVES)))
            return draw(st.sampled_from([name, {"type": name}])), _PRIMITIVES[name]
        case "logical":
            kind, logical_type = draw(st.sampled_from(sorted(_LOGICAL)))
            return {"type": kind, "logicalType": logical_type}, _LOGICAL[kind, logical_type]
        case "decimal":
            words = {"logicalType": "decimal", "precision": 4, "scale": 2}
            if draw(st.booleans()):
                return {"type": "bytes", **words}, _DECIMALS
            return {"type": "fixed", "name": names(), "size": 3, **words}, _DECIMALS
        case "enum":
            return {"type": "enum", "name": names(), "symbols": ["A", "B", "RED"]}, st.sampled_from(["A", "B", "RED"])
        case "fixed":
            return {"type": "fixed", "name": names(), "size": 2}, st.binary(min_size=2, max_size=2)
        case "array":
            items, values = draw(_type_and_values(names, depth - 1))
            return {"type": "array", "items": items}, st.lists(values, max_size=3)
        case "map":
            items, values = draw(_type_and_values(names, depth - 1))
            return {"type": "map", "values": items}, st.dictionaries(_TEXT, values, max_size=3)
        case "record":
            fields, values = draw(_fields(names, depth - 1))
            return {"type": "record", "name": names(), "fields": fields}, values
        case "nullable":
            other, values = draw(_type_and_values(names, depth - 1, in_union=True))
            return draw(st.permutations(["null", other])), st.none() | values
        case _:
            branches = draw(st.lists(_type_and_values(names, depth - 1, in_union=True), min_size=1, max_size=4))
            return [schema for schema, _ in branches], st.one_of([values for _, values in branches])


@st.composite
def _fields(draw: st.DrawFn, names: _Names, depth: int) -> tuple[list[Schema], Values]:
    made = draw(st.lists(_type_and_values(names, depth), max_size=4))
    fields, always, at_times = [], {}, {}
    for name, (schema, values) in zip("abcd", made, strict=False):
        field = {"name": name, "type": schema}
        if isinstance(schema, list) and schema[0] == "null":
            field["default"] = None
        elif schema == "int":
            field["default"] = 7
        elif isinstance(schema, dict) and schema["type"] == "array":
            field["default"] = []
        (at_times if "default" in field else always)[name] = values
        fields.append(field)
    return fields, st.fixed_dictionaries(always, optional=at_times)


@st.composite
def schemas_and_events(draw: st.DrawFn) -> tuple[Schema, dict[str, Any]]:
    """Return a schema of events and an event that fits it."""
    fields, values = draw(_fields(_Names(), 3))
    event = draw(values)
    if draw(st.booleans()):
        event["server"] = draw(_TEXT)
    if draw(st.booleans()):
        event["event_time"] = draw(st.integers(0, 2**40) | st.none())
    return event_schema("Random", fields), event


@st.composite
def spoilt(draw: st.DrawFn, event: dict[str, Any]) -> Any:
    """Return the event with something changed, somewhere."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            places.extend((value, key) for key in value)
            for part in value.values():
                walk(part)
        elif isinstance(value, list):
            places.extend((value, at) for at in range(len(value)))
            for part in value:
                walk(part)

    walk(event)
    change = draw(st.sampled_from(["value", "value", "value", "more", "fewer", "other key", "mapping"]))
    if change == "mapping":
        return draw(st.sampled_from([OrderedDict, types.MappingProxyType]))(event)
    if change == "value" and places:
        where, key = draw(st.sampled_from(places))
        where[key] = draw(ODD_VALUES)
    elif change == "fewer" and event:
        del event[draw(st.sampled_from(sorted(event, key=str)))]
    elif change == "more":
        event[draw(st.sampled_from(["zz", 5, "-type", "e", None]))] = 1
    elif change == "other key":
        event[draw(st.sampled_from(["a", "b", "c", "server", "event_time"]))] = draw(ODD_VALUES)
    return event
