"""A schema in the few words that a writer needs: nested tuples, made once, walked or compiled by the writers. Pure.

A writer that follows a program either returns exactly the bytes that fastavro writes after its validation, or gives up. It takes
values of the plain types only (`type(value) is int`, not a subclass). So what a program leaves out is slow and never wrong.

    (NULL,) (BOOLEAN,) (INT,) (LONG,) (FLOAT,) (DOUBLE,) (STRING,) (BYTES,)
    (FIXED, size)   (ENUM, {symbol: its index as a varint})   (ARRAY, items)   (MAP, values)
    (RECORD, index into `records`)
    (LOGICAL, node, types, prepare, schema)    `prepare(value, schema)` turns a value of these types into one for `node`
    (UNION, branches, {plain type: indices of the branches that may take it, in order})
"""

import datetime
import decimal
import io
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import fastavro
from fastavro.logical_writers import LOGICAL_WRITERS
from fastavro.validation import validate

from .varints import varint

Node = tuple[Any, ...]


class Kind(IntEnum):
    """The first word of a node. The native writer knows them by number."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    STRING = 6
    BYTES = 7
    FIXED = 8
    ENUM = 9
    ARRAY = 10
    MAP = 11
    UNION = 12
    RECORD = 13
    LOGICAL = 14


class Field(NamedTuple):
    """A field of a record."""

    name: str
    node: Node
    default: bytes | None
    """Its default's bytes; None: without the field the event is refused, or fastavro decides."""


@dataclass(frozen=True, slots=True)
class Program:
    """A schema's records; the first one is the event itself."""

    records: tuple[tuple[Field, ...], ...]
    is_recursive: bool
    """Whether a record can contain itself."""


class NotKnown(Exception):
    """The schema holds something that no program expresses: fastavro alone writes it."""


_PRIMITIVES = {
    "null": Kind.NULL,
    "boolean": Kind.BOOLEAN,
    "int": Kind.INT,
    "long": Kind.LONG,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "string": Kind.STRING,
    "bytes": Kind.BYTES,
}
_PLAIN_TYPES: Mapping[Kind, tuple[type, ...]] = {
    Kind.NULL: (type(None),),
    Kind.BOOLEAN: (bool,),
    Kind.INT: (int,),
    Kind.LONG: (int,),
    Kind.FLOAT: (float, int),
    Kind.DOUBLE: (float, int),
    Kind.STRING: (str,),
    Kind.BYTES: (bytes,),
    Kind.FIXED: (bytes,),
    Kind.ENUM: (str,),
    # fastavro counts bytes as a sequence, and so as an array.
    Kind.ARRAY: (list, bytes),
    Kind.MAP: (dict,),
    Kind.RECORD: (dict,),
}
_LOGICAL = {
    "long-timestamp-millis": (datetime.datetime,),
    "long-timestamp-micros": (datetime.datetime,),
    "long-local-timestamp-millis": (datetime.datetime,),
    "long-local-timestamp-micros": (datetime.datetime,),
    "int-date": (datetime.date, datetime.datetime, str),
    "int-time-millis": (datetime.time,),
    "long-time-micros": (datetime.time,),
    "bytes-decimal": (decimal.Decimal,),
    "fixed-decimal": (decimal.Decimal,),
    "string-uuid": (uuid.UUID,),
}
"""fastavro's logical types, and the Python types that it turns into plain ones."""
_MIXED = (list, dict, bytes)
"""Types of which fastavro's choice among several branches is not followed here."""


def compile_schema(parsed_schema: Any) -> Program:
    """Return the program of a record schema that `fastavro.parse_schema` has returned. Raises `NotKnown`."""
    return _Compiler(parsed_schema.get("__named_schemas", {})).compile(parsed_schema)


class _Compiler:
    def __init__(self, named_schemas: Mapping[str, Any]) -> None:
        self._named_schemas = named_schemas
        self._indices: dict[str, int] = {}
        self._records: list[tuple[Field, ...]] = []
        self._open: list[str] = []
        self._is_recursive = False

    def compile(self, schema: Any) -> Program:
        # The event is written otherwise than the records in it: if it contains itself, that is another record of the program.
        self._records.append(())
        self._open.append(schema["name"])
        self._records[0] = self._fields(schema)
        return Program(tuple(self._records), self._is_recursive)

    def _node(self, schema: Any) -> Node:
        if isinstance(schema, list):
            return self._union(schema)
        words = schema if isinstance(schema, dict) else {"type": schema}
        kind = words["type"]
        node = self._plain_node(kind, words)
        logical_type = words.get("logicalType")
        if not logical_type:
            return node
        key = f"{kind}-{logical_type}"
        prepare = LOGICAL_WRITERS.get(key)
        if prepare is None:
            return node
        if key not in _LOGICAL or not prepare.__module__.startswith("fastavro."):
            raise NotKnown(f"the application's own logical type {key}")
        return (Kind.LOGICAL, node, _LOGICAL[key], prepare, words)

    def _plain_node(self, kind: Any, words: Mapping[str, Any]) -> Node:
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return (_PRIMITIVES[kind],)
        if kind == "fixed":
            return (Kind.FIXED, words["size"])
        if kind == "enum":
            # Of a symbol that is given twice, the first counts.
            symbols = list(enumerate(words["symbols"]))
            return (Kind.ENUM, {symbol: varint(2 * index) for index, symbol in reversed(symbols)})
        if kind == "array":
            return (Kind.ARRAY, self._node(words["items"]))
        if kind == "map":
            return (Kind.MAP, self._node(words["values"]))
        if kind == "record":
            return (Kind.RECORD, self._record(words))
        if isinstance(kind, str) and kind in self._named_schemas:
            named = self._named_schemas[kind]
            if named.get("type") == "record":
                # Its full name: records that are open here must not be walked again.
                return (Kind.RECORD, self._record({**named, "name": kind}))
            return self._node(named)
        raise NotKnown(f"the type {kind!r}")

    def _record(self, words: Mapping[str, Any]) -> int:
        name = words["name"]
        self._is_recursive = self._is_recursive or name in self._open
        if name in self._indices:
            return self._indices[name]
        index = self._indices[name] = len(self._records)
        self._records.append(())
        self._open.append(name)
        self._records[index] = self._fields(words)
        self._open.pop()
        return index

    def _fields(self, words: Mapping[str, Any]) -> tuple[Field, ...]:
        fields = tuple(
            Field(field["name"], self._node(field["type"]), self._default_of(field) if "default" in field else None)
            for field in words["fields"]
        )
        names = {field.name for field in fields}
        if len(names) != len(fields) or "-type" in names:
            raise NotKnown("a field twice, or one named '-type', which fastavro reads as a hint")
        return fields

    def _default_of(self, field: Mapping[str, Any]) -> bytes | None:
        """Return what fastavro writes for a field left out; None if it refuses to."""
        alone = {
            "type": "record",
            "name": "Alone",
            "fields": [field],
            # So marked, fastavro takes it as parsed and finds the named types in it.
            "__fastavro_parsed": True,
            "__named_schemas": self._named_schemas,
        }
        out = io.BytesIO()
        try:
            if not validate({}, alone, raise_errors=False):
                return None
            fastavro.schemaless_writer(out, alone, {}, strict_allow_default=True)
        except Exception:
            return None
        return out.getvalue()

    def _union(self, schemas: list[Any]) -> Node:
        branches = tuple(self._node(schema) for schema in schemas)
        takers: dict[type, list[int]] = {}
        for index, branch in enumerate(branches):
            for plain_type in _types_of(branch):
                takers.setdefault(plain_type, []).append(index)
        choices: dict[type, tuple[int, ...]] = {}
        for plain_type, indices in takers.items():
            kinds = [branches[index][0] for index in indices]
            if Kind.DOUBLE in kinds and Kind.FLOAT in kinds and kinds.index(Kind.FLOAT) < kinds.index(Kind.DOUBLE):
                # fastavro prefers a later double.
                del indices[kinds.index(Kind.FLOAT)]
            is_mixed = plain_type in _MIXED or any(branches[index][0] is Kind.LOGICAL for index in indices)
            if len(indices) == 1 or not is_mixed:
                choices[plain_type] = tuple(indices)
        return (Kind.UNION, branches, choices)


def _types_of(node: Node) -> tuple[type, ...]:
    if node[0] is Kind.LOGICAL:
        return (*_PLAIN_TYPES[node[1][0]], *node[2])
    if node[0] is Kind.UNION:
        raise NotKnown("a union in a union")
    return _PLAIN_TYPES[node[0]]
