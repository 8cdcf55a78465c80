"""Decodes many Avro bodies of one flat schema at once, to Arrow columns, through polars: five times as fast as one after the other.

Bodies become one block of an Avro container file in memory. Its schema is the writer's between two fields more: the envelope, which
so need not be cut off, and a guard behind every body. Only with every envelope and guard in its place is the block what was written:
without them polars takes a body that is cut short, and gives its neighbours wrong values. Where anything is amiss the answer is None,
and the bodies are decoded one after the other (`decoding`), which also decides about each. Source: Avro specification 1.11.
"""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from ...wire.schema_id import SIZE

GUARD = b"\xa5\x1bguard\x9e"
_ENVELOPE, _END = "_envelope-", "_guard-"
"""No field of an event has such a name: Avro allows no hyphen."""
_SYNC = b"headrace-a-block"
_NUMBERS = {"int": "long", "long": "long", "float": "float", "double": "double", "boolean": "boolean", "string": "string"}
"""Primitive → the type by which it is read. An `int` is a `long` on the wire, and some writers go beyond 32 bits."""


class AvroBlocks:
    """Decodes blocks of one writer's schema."""

    def __init__(self, avro: Mapping[str, Any]) -> None:
        """`avro`: a schema for which `is_flat` holds."""
        fields = [{"name": one["name"], "type": _read_as(one["type"])} for one in avro["fields"]]
        schema = {
            "type": "record",
            "name": "Block",
            "fields": [
                {"name": _ENVELOPE, "type": {"type": "fixed", "name": "Envelope", "size": SIZE}},
                *fields,
                {"name": _END, "type": {"type": "fixed", "name": "Guard", "size": len(GUARD)}},
            ],
        }
        metadata = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": b"null"}
        entries = b"".join(_sized(key) + _sized(value) for key, value in metadata.items())
        self._head = b"Obj\x01" + _zigzag(len(metadata)) + entries + _zigzag(0) + _SYNC

    def decode(self, framed: Sequence[bytes]) -> pa.Table | None:
        """Return the columns of payloads that all have the same envelope, under the fields' names; None if one is not as it should
        be.
        """
        data = GUARD.join(framed) + GUARD
        container = b"".join((self._head, _zigzag(len(framed)), _zigzag(len(data)), data, _SYNC))
        try:
            found = pl.read_avro(io.BytesIO(container))
            is_sound = (pl.col(_END) == pl.lit(GUARD)) & (pl.col(_ENVELOPE) == pl.lit(framed[0][:SIZE]))
            if len(found) != len(framed) or not found.select(is_sound.all()).item():
                return None
            return found.drop(_ENVELOPE, _END).to_arrow()
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException:  # polars panics at some damage, and a panic is no Exception
            return None


def is_flat(avro: Any) -> bool:
    """Return whether every field is a plain value, or null and a plain value."""
    return isinstance(avro, dict) and avro.get("type") == "record" and all(_read_as(one["type"]) for one in avro["fields"])


def _read_as(schema: Any) -> Any:
    """Return the type by which a field is read; None if not by this way."""
    if isinstance(schema, dict) and set(schema) == {"type"}:
        return _read_as(schema["type"])
    if isinstance(schema, str):
        return _NUMBERS.get(schema)
    if isinstance(schema, list) and len(schema) == 2 and schema.count("null") == 1:
        (other,) = (one for one in schema if one != "null")
        inner = _read_as(other) if not isinstance(other, list) else None
        return inner and [one if one == "null" else inner for one in schema]
    return None


def _sized(data: bytes) -> bytes:
    return _zigzag(len(data)) + data


def _zigzag(number: int) -> bytes:
    """Return a number that is not negative as Avro's variable-length integer."""
    number <<= 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
