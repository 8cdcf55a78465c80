"""A request of any API and version with any values, written from kio's schema: also nulls and numbers that no client sends."""

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from kio.serial._introspect import EntityField, EntityTupleField, PrimitiveTupleField, classify_field, get_field_tag

from headrace.wire.errors import UnsupportedVersion
from headrace.wire.messages import control
from headrace.wire.varint import unsigned

MOST_ELEMENTS = 4
NUMBERS = {"bool": ">B", "int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "timedelta_i32": ">i", "timedelta_i64": ">q"}
WORDS = (
    "",
    "user",
    "client-id",
    "ip",
    "User:alice",
    "User:*",
    "User:",
    "alice",
    "bob",
    "*",
    "kafka-cluster",
    "127.0.0.1",
    "clicks",
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "<default>",
    "%3Cdefault%3E",
    ".",
    "..",
    "../../rights",
    "a/b",
    "a\0b",
    "\r\n",
    "ä\u0301\u200b\u202e\U0001f511",
    "x" * 1_001,
    "x" * 32_000,
)
LIKELY: Mapping[str, Sequence[str]] = {
    "entity_type": ("user", "client-id"),
    "key": ("producer_byte_rate", "consumer_byte_rate", "request_percentage"),
    "principal": ("User:alice", "User:*"),
    "host": ("*", "127.0.0.1"),
    "resource_name": ("clicks", "kafka-cluster", "*"),
}
"""What makes a request likely to be carried out, by the field's name."""
LIKELY_NUMBERS: Mapping[str, Sequence[int]] = {
    "resource_type": (2, 3, 4),
    "resource_pattern_type": (3, 4),
    "permission_type": (2, 3),
    "mechanism": (1, 2),
    "iterations": (4_096, 16_384),
}
DOUBLES = (0.0, -0.0, 1.0, 1_000.0, 1e9, 0.5, -1.0, 1e308, float("inf"), float("-inf"), float("nan"), 5e-324)


def any_body(chance: random.Random, key: int, version: int) -> bytes | None:
    """Return a body, now and then with bytes changed; None where kio has no schema of the version."""
    try:
        entity_type: Any = control.message_type("request", key, version)
    except UnsupportedVersion:
        return None
    body = bytearray(_Writer(chance, flexible=entity_type.__flexible__).entity(entity_type))
    if chance.random() < 0.1 and body:
        for _ in range(chance.randint(1, 3)):
            body[chance.randrange(len(body))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(body)


class _Writer:
    def __init__(self, chance: random.Random, *, flexible: bool) -> None:
        self._chance = chance
        self._flexible = flexible

    def entity(self, entity_type: Any) -> bytes:
        parts = []
        for field in fields(entity_type):
            if get_field_tag(field) is not None:
                continue
            kind = field.metadata.get("kafka_type")
            match classify_field(field):
                case EntityTupleField(type_):
                    parts.append(self._array(lambda type_=type_: self.entity(type_)))  # type: ignore[misc]
                case PrimitiveTupleField():
                    parts.append(self._array(lambda kind=kind: self._value(kind)))  # type: ignore[misc]
                case EntityField(type_):
                    parts.append(self.entity(type_))
                case _:
                    parts.append(self._value(kind, field.name))
        return b"".join(parts) + (self._tags() if self._flexible else b"")

    def _array(self, element: Any) -> bytes:
        chance = self._chance
        if chance.random() < 0.03:
            return self._count(-1)
        elements: list[bytes] = []
        for _ in range(chance.randint(0, MOST_ELEMENTS)):
            elements.append(elements[-1] if elements and chance.random() < 0.2 else element())
        return self._count(len(elements)) + b"".join(elements)

    def _count(self, count: int) -> bytes:
        return unsigned(count + 1) if self._flexible else struct.pack(">i", count)

    def _tags(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.95:
            return b"\0"
        data = chance.randbytes(chance.randrange(8))
        return b"\x01" + unsigned(chance.choice((0, 1, 2, 10_000))) + unsigned(len(data)) + data

    def _value(self, kind: Any, name: str = "") -> bytes:
        chance = self._chance
        match kind:
            case "string":
                return self._text(name)
            case "bytes" | "records":
                return self._bytes()
            case "uuid":
                return chance.choice((bytes(16), chance.randbytes(16)))
            case "float64":
                return struct.pack(">d", chance.choice(DOUBLES))
        form = NUMBERS[kind]
        bits = 8 * struct.calcsize(form)
        if kind == "bool":
            return bytes([2 if chance.random() < 0.02 else chance.randrange(2)])
        if name in LIKELY_NUMBERS and chance.random() < 0.8:
            return struct.pack(form, chance.choice(LIKELY_NUMBERS[name]))
        extremes = (-1, 1 << (bits - 2), (1 << (bits - 1)) - 1, -(1 << (bits - 1)), 4_096, 100)
        number = chance.randint(0, 5) if chance.random() < 0.8 else chance.choice(extremes)
        return struct.pack(form, number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else 1)

    def _text(self, name: str) -> bytes:
        chance = self._chance
        if chance.random() < 0.03:
            return b"\0" if self._flexible else b"\xff\xff"
        words = LIKELY[name] if name in LIKELY and chance.random() < 0.8 else WORDS
        data = chance.choice(words).encode() if chance.random() < 0.97 else chance.randbytes(5)
        return (unsigned(len(data) + 1) if self._flexible else struct.pack(">h", len(data))) + data

    def _bytes(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.03:
            return b"\0" if self._flexible else b"\xff\xff\xff\xff"
        data = chance.choice((b"", chance.randbytes(16), chance.randbytes(32), chance.randbytes(64), bytes(300)))
        return (unsigned(len(data) + 1) if self._flexible else struct.pack(">i", len(data))) + data
