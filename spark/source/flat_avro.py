"""Decodes many Avro bodies of one flat schema at once, to Arrow arrays: in C (`headrace_native`), where it is installed.

Flat: a record of plain values and enums, each of which may be null. It takes only what every decoder understands in the same
way: branches and booleans of one byte, numbers of 64 bits, texts in UTF-8, no byte too few or too many. Anything else in a block
makes its answer None; then fastavro decodes the bodies one after the other (`decoding`) and decides about each. So a body has one
meaning, whichever way it goes. (polars decodes such blocks half as fast, and takes wrong branches: decision 34.)
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ...runtime.native import native
from ...wire.schema_id import SIZE

_KINDS = {"int": b"l", "long": b"l", "float": b"f", "double": b"d", "boolean": b"b", "string": b"s", "bytes": b"s"}
_TYPES = {b"l": pa.int64(), b"f": pa.float64(), b"d": pa.float64(), b"b": pa.bool_()}
_NEVER, _FIRST, _SECOND = b"\0", b"\1", b"\2"
"""Where null stands among a field's two branches."""


class FlatAvro:
    """Decodes blocks of one writer's schema."""

    def __init__(self, fields: Sequence["_Field"], wanted: Collection[str] | None = None) -> None:
        self._fields = fields
        self._wanted = wanted
        self._kinds = b"".join(one.kind + one.nulls for one in fields)

    @classmethod
    def of(cls, avro: Any, wanted: Collection[str] | None = None) -> "FlatAvro | None":
        """Return the decoder of a schema as `WriterColumns.avro` has it; None if it is not flat, or C is not there.

        `wanted`: the fields that become arrays; None: all.
        """
        if native is None or not isinstance(avro, dict) or avro.get("type") not in ("record", "error"):
            return None
        fields = [_field(one["name"], one["type"]) for one in avro["fields"]]
        return cls([one for one in fields if one is not None], wanted) if all(fields) else None

    def decode(self, framed: list[bytes]) -> dict[str, pa.Array] | None:
        """Return the arrays of these payloads by the field's name: int64, float64, bool, string or binary. Their envelope is
        skipped. None: one of them must be decoded alone.
        """
        assert native is not None
        columns = native.avro_columns(self._kinds, framed, SIZE)
        if columns is None:
            return None
        try:
            return {
                one.name: one.array(len(framed), *buffers)
                for one, buffers in zip(self._fields, columns, strict=True)
                if self._wanted is None or one.name in self._wanted
            }
        except pa.ArrowException:
            return None


class _Field:
    """One field: how it is read, and what becomes of its buffers."""

    def __init__(self, name: str, kind: bytes, nulls: bytes, type_: pa.DataType, symbols: pa.Array | None = None) -> None:
        self.name = name
        self.kind = kind
        self.nulls = nulls
        self._type = type_
        self._symbols = symbols

    def array(self, count: int, validity: bytes | None, values: bytes, data: bytes | None) -> pa.Array:
        """Raises ArrowInvalid for a text that is not UTF-8, and for an enum's number that has no symbol."""
        buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(values)]
        if data is not None:
            buffers.append(pa.py_buffer(data))
        found = pa.Array.from_buffers(self._type, count, buffers)
        if self._symbols is not None:
            found = pa.DictionaryArray.from_arrays(found, self._symbols).cast(pa.string())
        elif self._type == pa.string():
            found.validate(full=True)
        return found


def _field(name: str, schema: Any, nulls: bytes = _NEVER) -> _Field | None:
    if isinstance(schema, list):
        if len(schema) != 2 or schema.count("null") != 1 or nulls != _NEVER:
            return None
        is_first = schema[0] == "null"
        return _field(name, schema[1] if is_first else schema[0], _FIRST if is_first else _SECOND)
    if isinstance(schema, Mapping):
        if schema["type"] == "enum":
            return _Field(name, b"l", nulls, pa.int64(), pa.array(schema["symbols"], pa.string()))
        return None if "logicalType" in schema else _field(name, schema["type"], nulls)
    kind = _KINDS.get(schema)
    if kind is None:
        return None
    return _Field(name, kind, nulls, _TYPES.get(kind) or (pa.string() if schema == "string" else pa.binary()))
