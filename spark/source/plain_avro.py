"""Decodes one Avro body at a time by the specification alone, without C and without fastavro: a second opinion on a sample.

It answers only for bodies that are written as the specification writes them, with no byte too few or too many: what decoders may
read in different ways says nothing about a decoder's fault. Pure. Source: Avro specification 1.11, 'Binary encoding'.
"""

import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
MOST_BITS = 64


class NotPlain(Exception):
    """The body is not written as the specification writes it."""


class _Body:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise NotPlain("it ends too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def long(self) -> int:
        found = shift = 0
        while True:
            (byte,) = self.take(1)
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if (byte == 0 and shift > 7) or found >> MOST_BITS:
            raise NotPlain("a number takes more bytes than it needs")
        return (found >> 1) ^ -(found & 1)

    def one_of(self, choices: Any) -> Any:
        at = self.long()
        if not 0 <= at < len(choices):
            raise NotPlain("there is no such branch or symbol")
        return choices[at]

    def check_end(self) -> None:
        if self._at != len(self._data):
            raise NotPlain("bytes are left over")


_Read = Callable[[_Body], Any]


class PlainAvro:
    """Decodes bodies of one writer's schema, as `WriterColumns.avro` has it."""

    def __init__(self, schema: Any) -> None:
        self._names: dict[str, _Read] = {}
        self._read = self._reader(schema, "")

    def decode(self, framed: bytes, at: int) -> Any:
        """Return the event behind the envelope of `at` bytes. Raises NotPlain."""
        body = _Body(framed, at)
        try:
            found = self._read(body)
        except UnicodeDecodeError as error:
            raise NotPlain(str(error)) from error
        body.check_end()
        return found

    def _reader(self, schema: Any, scope: str) -> _Read:
        if isinstance(schema, list):
            branches = [self._reader(one, scope) for one in schema]
            return lambda body: body.one_of(branches)(body)
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._named(schema, scope)
        kind = schema["type"]
        match kind:
            case "record" | "error" | "enum" | "fixed":
                return self._declared(schema, scope)
            case "array":
                item = self._reader(schema["items"], scope)
                return lambda body: [item(body) for _ in _items(body)]
            case "map":
                value = self._reader(schema["values"], scope)
                return lambda body: {_text(body): value(body) for _ in _items(body)}
            case "bytes" if schema.get("logicalType") == "decimal":
                return _decimal(schema, _bytes)
        return self._reader(kind, scope)

    def _named(self, name: str, scope: str) -> _Read:
        full = name if "." in name or not scope or f"{scope}.{name}" not in self._names else f"{scope}.{name}"
        return lambda body: self._names[full](body)  # a record may name itself

    def _declared(self, schema: Mapping[str, Any], scope: str) -> _Read:
        name = str(schema["name"])
        space = str(schema.get("namespace", scope) or "")
        full = name if "." in name or not space else f"{space}.{name}"
        inside = full.rpartition(".")[0]
        read: _Read
        if schema["type"] == "enum":
            symbols = schema["symbols"]
            read = lambda body: body.one_of(symbols)  # noqa: E731
        elif schema["type"] == "fixed":
            size = int(schema["size"])
            read = lambda body: body.take(size)  # noqa: E731
            if schema.get("logicalType") == "decimal":
                read = _decimal(schema, read)
        else:
            fields: list[tuple[str, _Read]] = []
            read = lambda body: {name: one(body) for name, one in fields}  # noqa: E731
            self._names[full] = read
            fields += [(one["name"], self._reader(one["type"], inside)) for one in schema["fields"]]
        self._names[full] = read
        return read


def _items(body: _Body) -> Any:
    while (count := body.long()) != 0:
        if count < 0:
            count, _ = -count, body.long()
        yield from range(count)


def _boolean(body: _Body) -> bool:
    (byte,) = body.take(1)
    if byte > 1:
        raise NotPlain("a boolean is neither 0 nor 1")
    return bool(byte)


def _bytes(body: _Body) -> bytes:
    return body.take(body.long())


def _text(body: _Body) -> str:
    return _bytes(body).decode()


def _decimal(schema: Mapping[str, Any], read: _Read) -> _Read:
    scale, precision = int(schema.get("scale", 0)), int(schema["precision"])

    def decimal(body: _Body) -> Decimal:
        unscaled = int.from_bytes(read(body), "big", signed=True)
        digits = tuple(map(int, str(abs(unscaled))))
        if len(digits) > precision:
            raise NotPlain("a decimal has more digits than its schema allows")
        return Decimal((int(unscaled < 0), digits, -scale))

    return decimal


_PRIMITIVES: Mapping[str, _Read] = {
    "null": lambda body: None,
    "boolean": _boolean,
    "int": _Body.long,
    "long": _Body.long,
    "float": lambda body: _FLOAT.unpack(body.take(4))[0],
    "double": lambda body: _DOUBLE.unpack(body.take(8))[0],
    "bytes": _bytes,
    "string": _text,
}
