"""Makes Python code of a program: one function a record, which checks and encodes an event in one pass.

No name and no value of the schema is in the code: it takes them as constants (`C0`, `C1`, …). Each field becomes one or two
pieces of bytes; one join makes the record of them. Whatever is not as plain as the program has it raises, and is not encoded
here. `PythonWriter.source` is the code.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from types import CodeType
from typing import Any

from ..event_schema import EVENT_TIME, SERVER
from .program import Kind, Node, Program
from .varints import varint, zigzag

MISSING = object()
_SHORT = 1024
"""Lengths and numbers below are looked up together with the byte that goes before them."""


_BUILT_IN = (bool, int, float, str, bytes, list, dict)
_KEY: Node = (Kind.STRING,)
_GET_SERVER = (
    "given = get(SERVER, MISSING)",
    "if given is not MISSING:",
    "    if type(given) is not str: raise NotPlain",
    "    given = given.encode()",
    "    server = varint(2 * len(given)) + given",
    "    found += 1",
    "if EVENT_TIME in event: found += 1",
)


class NotPlain(Exception):
    """The value is refused, or is of a type that only fastavro takes."""


class PythonWriter:
    """Encodes events of one program for one server."""

    def __init__(self, program: Program, server: bytes | None) -> None:
        """`server`: the name of the server of events that do not name theirs, in UTF-8."""
        maker = _Maker(program)
        self.source = maker.source()
        code: CodeType = compile(self.source, "<headrace event writer>", "exec")
        space: dict[str, Any] = maker.constants(server)
        exec(code, space)
        self.encode: Callable[[Any, int], bytes] = space["encode"]
        """The body of (event, event time in ms). Raises anything at all where `Reference` is to decide."""


class _Maker:
    """Writes the code of one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._constants: list[Any] = []
        self._tables: dict[bytes, str] = {}
        self._functions: list[str] = []
        self._made: dict[int, str] = {}

    def source(self) -> str:
        for index in range(1, len(self._program.records)):
            self._functions.append(self._record_function(index))
        top = self._record_function(0, is_event=True)
        return "\n\n".join([*self._functions, top]) + "\n"

    def constants(self, server: bytes | None) -> dict[str, Any]:
        return {
            **{f"C{at}": value for at, value in enumerate(self._constants)},
            "SERVER": SERVER,
            "SERVER_PIECE": MISSING if server is None else varint(2 * len(server)) + server,
            "EVENT_TIME": EVENT_TIME,
            "MISSING": MISSING,
            "NotPlain": NotPlain,
            "join": b"".join,
            "varint": varint,
            "zigzag": zigzag,
        }

    def _constant(self, value: Any) -> str:
        self._constants.append(value)
        return f"C{len(self._constants) - 1}"

    def _table(self, lead: bytes) -> str:
        """Return the name of the varints of 0, 1, 2, … doubled (lengths, positive numbers), each behind `lead`."""
        if lead not in self._tables:
            self._tables[lead] = self._constant(_doubled(lead))
        return self._tables[lead]

    def _record_function(self, index: int, *, is_event: bool = False) -> str:
        """Return the function that encodes a record; the event itself has `server` and `event_time` from elsewhere."""
        fields = self._program.records[index]
        own = [at for at, field in enumerate(fields) if not (is_event and field.name in (SERVER, EVENT_TIME))]
        names = {at: self._constant(fields[at].name) for at in own}
        out = [f"def {'encode(event, timestamp_ms)' if is_event else f'record_{index}(event)'}:"]
        put = out.append
        put("    if type(event) is not dict: raise NotPlain")
        put(f"    found = {len(own)}")
        put("    get = event.get")
        get_each = [f"v{at} = get({names[at]}, MISSING)" for at in own] + [
            f"if v{at} is MISSING: found -= 1" for at in own if fields[at].default is not None
        ]
        if is_event:
            put("    server = SERVER_PIECE")
            get_each += _GET_SERVER
        put("    is_whole = len(event) == found")
        if len(own) > 1:
            # Where every field is there and no other, one call fetches them all.
            every = self._constant(itemgetter(*(fields[at].name for at in own)))
            put("    if is_whole:")
            put(f"        try: {', '.join(f'v{at}' for at in own)} = {every}(event)")
            put("        except KeyError: is_whole = False")
            put("    if not is_whole:")
            out += [f"        {line}" for line in get_each]
        else:
            out += [f"    {line}" for line in get_each]
        put("    if len(event) != found: raise NotPlain")
        pieces: list[str] = []
        for at, field in enumerate(fields):
            if at not in names:
                if field.name == SERVER:
                    pieces.append("server")
                    continue
                put("    if type(timestamp_ms) is not int or not 0 <= timestamp_ms < 1 << 62: raise NotPlain")
                pieces.append("varint(timestamp_ms << 1)")
                continue
            if field.node[0] is Kind.UNION:
                lines, has_tail = self._assign_union(field.node, f"v{at}", f"p{at}", f"b{at}", field.default)
                out += [f"    {line}" for line in lines]
                pieces += [f"p{at}", f"b{at}"] if has_tail else [f"p{at}"]
                continue
            lines, has_tail = self._assign(field.node, f"v{at}", f"p{at}", f"b{at}", b"")
            if field.default is not None:
                put(f"    if v{at} is MISSING: p{at} = {self._constant(field.default)}" + f"; b{at} = b''" * has_tail)
                put("    else:")
                out += [f"        {line}" for line in lines]
            else:
                out += [f"    {line}" for line in lines]
            pieces += [f"p{at}", f"b{at}"] if has_tail else [f"p{at}"]
        put(f"    return join(({', '.join(pieces)},))" if pieces else "    return b''")
        return "\n".join(out)

    def _function(self, node: Node) -> str:
        """Return the name of a function that encodes one value of this node."""
        if node[0] is Kind.RECORD:
            return f"record_{node[1]}"
        if id(node) not in self._made:
            name = self._made[id(node)] = f"value_{len(self._made)}"
            lines, has_tail = self._assign(node, "v", "p", "b", b"")
            body = [f"def {name}(v):", *(f"    {line}" for line in lines), f"    return p{' + b' if has_tail else ''}"]
            self._functions.append("\n".join(body))
        return self._made[id(node)]

    def _assign(self, node: Node, v: str, p: str, b: str, lead: bytes, *, is_typed: bool = False) -> tuple[list[str], bool]:
        """Return the lines that make the bytes `lead` + value of the variable `v`, and whether they are in `p` and `b`, or in `p`
        alone. `is_typed`: the value is known to be of a plain type that may fit.
        """
        kind = node[0]
        if kind is Kind.UNION:
            return self._assign_union(node, v, p, b)
        if kind is Kind.LOGICAL:
            types = self._constant(frozenset(node[2]))
            lines, has_tail = self._assign(node[1], v, p, b, lead)  # what `prepare` returns is checked
            return [
                f"if type({v}) in {types}: {v} = {self._constant(node[3])}({v}, {self._constant(node[4])})",
                *lines,
            ], has_tail
        before = f"{lead!r} + " if lead else ""
        match kind:
            case Kind.NULL:
                return [*_check(f"{v} is not None", is_typed), f"{p} = {lead!r}"], False
            case Kind.BOOLEAN:
                return [
                    f"if {v} is True: {p} = {lead + bytes([1])!r}",
                    f"elif {v} is False: {p} = {lead + bytes([0])!r}",
                    "else: raise NotPlain",
                ], False
            case Kind.INT | Kind.LONG:
                bits = 31 if kind is Kind.INT else 63
                return [
                    *_check(f"type({v}) is not int", is_typed),
                    f"if 0 <= {v} < {_SHORT}: {p} = {self._table(lead)}[{v}]",
                    f"elif -1 << {bits} <= {v} < 1 << {bits}: {p} = {before}zigzag({v})",
                    "else: raise NotPlain",
                ], False
            case Kind.FLOAT | Kind.DOUBLE:
                pack = self._constant(struct.Struct("<f" if kind is Kind.FLOAT else "<d").pack)
                return [
                    *_check(f"type({v}) is not float and type({v}) is not int", is_typed),
                    f"{p} = {before}{pack}({v})",
                ], False
            case Kind.STRING:
                check = _check(f"type({v}) is not str", is_typed)
                return [*check, f"{b} = {v}.encode()", *self._length(p, b, lead)], True
            case Kind.BYTES:
                return [*_as_bytes(v), f"{b} = {v}", *self._length(p, b, lead)], True
            case Kind.FIXED:
                return [*_as_bytes(v), f"if len({v}) != {node[1]:d}: raise NotPlain", f"{p} = {before}{v}"], False
            case Kind.ENUM:
                symbols = self._constant({symbol: lead + index for symbol, index in node[1].items()})
                return [f"{p} = {symbols}[{v}]"], False
            case Kind.ARRAY:
                items = f"[{self._function(node[1])}(item) for item in {v}]"
                check = _check(f"type({v}) is not list and type({v}) is not tuple", is_typed)
                return [*check, *_block(items, p, b, before)], False
            case Kind.MAP:
                key = self._function(_KEY)
                items = f"[{key}(key) + {self._function(node[1])}(item) for key, item in {v}.items()]"
                return [*_check(f"type({v}) is not dict", is_typed), *_block(items, p, b, before)], False
            case _:
                return [f"{p} = {before}{self._function(node)}({v})"], False

    def _length(self, p: str, b: str, lead: bytes) -> list[str]:
        before = f"{lead!r} + " if lead else ""
        return [f"n = len({b})", f"{p} = {self._table(lead)}[n] if n < {_SHORT} else {before}varint(2 * n)"]

    def _assign_union(self, node: Node, v: str, p: str, b: str, default: bytes | None = None) -> tuple[list[str], bool]:
        """As `_assign`. `default`: what a missing value becomes; the test for it is the last, for most have a value."""
        _, branches, choices = node
        made = [self._assign(branch, v, p, b, varint(2 * index), is_typed=True) for index, branch in enumerate(branches)]
        any_tail = any(has_tail for _, has_tail in made)
        out: list[str] = []
        word = "if"
        for plain_type, indices in choices.items():
            is_it = f"{v} is None" if plain_type is type(None) else f"type({v}) is {self._type(plain_type)}"
            for at, index in enumerate(indices):
                test = self._test(branches[index], v) if at < len(indices) - 1 else ""
                lines, has_tail = made[index]
                out.append(f"{word} {is_it}{test}:")
                out += [f"    {line}" for line in lines]
                if any_tail and not has_tail:
                    out.append(f"    {b} = b''")
                word = "elif"
        if default is not None:
            out.append(f"{word} {v} is MISSING: {p} = {self._constant(default)}" + f"; {b} = b''" * any_tail)
        return [*out, "else: raise NotPlain"] if out else ["raise NotPlain"], any_tail

    def _type(self, plain_type: type) -> str:
        return plain_type.__name__ if plain_type in _BUILT_IN else self._constant(plain_type)

    def _test(self, branch: Node, v: str) -> str:
        """Return the condition under which this branch takes a value of its plain type, when another one may as well."""
        match branch[0]:
            case Kind.INT:
                return f" and -1 << 31 <= {v} < 1 << 31"
            case Kind.LONG:
                return f" and -1 << 63 <= {v} < 1 << 63"
            case Kind.ENUM:
                return f" and {v} in {self._constant(branch[1])}"
            case _:
                return ""


@lru_cache(maxsize=64)
def _doubled(lead: bytes) -> tuple[bytes, ...]:
    return tuple(lead + varint(2 * value) for value in range(_SHORT))


def _check(fault: str, is_known: bool) -> list[str]:
    return [] if is_known else [f"if {fault}: raise NotPlain"]


def _as_bytes(v: str) -> list[str]:
    return [f"if type({v}) is bytearray: {v} = bytes({v})", f"elif type({v}) is not bytes: raise NotPlain"]


def _block(items: str, p: str, b: str, before: str) -> list[str]:
    """Return the lines for an array's or a map's one block. `b` holds its parts for a moment."""
    return [f"{b} = {items}", f"{p} = {before}(varint(2 * len({b})) + join({b}) + b'\\0' if {b} else b'\\0')"]
