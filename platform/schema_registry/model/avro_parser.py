"""Parses a schema's JSON into the graph of its types. Checks every rule of the specification; each error names its path.

Looks nothing up: the caller passes the referenced types. Source: the Avro 1.12 specification.
"""

import json
import math
import re
from collections import Counter
from typing import Any

from ..errors import InvalidSchema
from .avro_types import (
    ABSENT,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Properties,
    Record,
    Union,
    namespace_of,
)
from .default_values import DefaultValues
from .self_contained import DEPTH_LIMIT, PRIMITIVES, full_name

TEXT_LIMIT_BYTES = 1024 * 1024
NAME_LIMIT = 512
"""The longest full name, in characters. Every type below a namespace carries it in its own name."""
ALIAS_LIMIT = 100
"""The most aliases of one type or field."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def json_of(text: str, *, is_stored: bool = False) -> Any:
    """Return the JSON in `text`. Raises `InvalidSchema`: not JSON, too long, too deep, a name twice, a number too large.

    `is_stored`: earlier versions stored numbers that are not finite as `Infinity`; so it is read back.
    """
    if len(text.encode(errors="surrogatepass")) > TEXT_LIMIT_BYTES:
        raise InvalidSchema(f"the schema is longer than {TEXT_LIMIT_BYTES} bytes: split it with references", error_code=42209)
    try:
        constant = float if is_stored else no_constant
        words = json.loads(text, object_pairs_hook=_object, parse_constant=constant, parse_float=float if is_stored else finite)
    except RecursionError as error:
        raise InvalidSchema(f"the schema is nested deeper than {DEPTH_LIMIT} levels: flatten it") from error
    except ValueError as error:
        # A bare word names a type: Avro's own tools accept `string` for `"string"`.
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise InvalidSchema(f"the schema is not JSON: {error}") from error
    return words


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    words = dict(pairs)
    if len(words) != len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise InvalidSchema(f"one JSON object has the name {twice!r} twice: keep one")
    return words


def no_constant(word: str) -> Any:
    """Refuse `NaN` and `Infinity`, which Python's JSON would take."""
    raise InvalidSchema(f"{word} is not a JSON number: write the default as a string or leave it out")


def finite(word: str) -> float:
    """Return the number; refuse one that a double cannot hold, for it would be written back as `Infinity`."""
    number = float(word)
    if not math.isfinite(number):
        raise InvalidSchema(f"{word[:40]} is too large for a double: write a smaller number, or leave it out")
    return number


class AvroParser:
    """Parses schemas into one set of named types: first the referenced ones, then the schema that uses them."""

    def __init__(self) -> None:
        self.named: dict[str, Named] = {}
        self._defaults = DefaultValues()

    def parse(self, words: Any) -> AvroType:
        """Return the type that a schema's JSON declares. Raises `InvalidSchema`."""
        return self._type(words, "", "", 0)

    def _type(self, words: Any, namespace: str, path: str, depth: int) -> AvroType:
        if depth > DEPTH_LIMIT:
            raise InvalidSchema(f"the schema is nested deeper than {DEPTH_LIMIT} levels: flatten it")
        if isinstance(words, str):
            return self._named_or_primitive(words, namespace, path)
        if isinstance(words, list):
            return self._union(words, namespace, path, depth)
        if not isinstance(words, dict):
            raise _fault(path, f"{_cut(words)} is not a type: give a name, an object or a list")
        kind = words.get("type")
        match kind:
            case "array":
                inside = self._type(_needed(words, "items", path), namespace, f"{path}/items", depth + 1)
                return Array(items=inside, properties=_properties(words, {"type", "items"}))
            case "map":
                inside = self._type(_needed(words, "values", path), namespace, f"{path}/values", depth + 1)
                return Map(values=inside, properties=_properties(words, {"type", "values"}))
            case "record" | "error":
                return self._record(words, namespace, path, depth)
            case "enum":
                return self._enum(words, namespace, path)
            case "fixed":
                return self._fixed(words, namespace, path)
            case str() if kind in PRIMITIVES:
                return Primitive(kind=kind, properties=_properties(words, {"type"}))
            case None:
                raise _fault(path, f'the object {_cut(words)} has no "type"')
            case _:
                return self._type(kind, namespace, path, depth + 1)

    def _named_or_primitive(self, word: str, namespace: str, path: str) -> AvroType:
        if word in PRIMITIVES:
            return Primitive(kind=word)
        full = full_name(word, namespace) if len(word) <= NAME_LIMIT else word
        found = self.named.get(full)
        if found is None:
            raise _fault(
                path,
                f"the type {_cut(full)} is not defined before it is used: define it, or add a reference to the subject that does",
            )
        return found

    def _union(self, words: list[Any], namespace: str, path: str, depth: int) -> Union:
        branches: list[AvroType] = []
        seen: set[str] = set()
        for position, word in enumerate(words):
            branch = self._type(word, namespace, f"{path}/{position}", depth + 1)
            if isinstance(branch, Union):
                raise _fault(f"{path}/{position}", "a union is directly inside a union: merge the two")
            label = branch.name if isinstance(branch, Record | Enum | Fixed) else branch.kind
            if label in seen:
                raise _fault(f"{path}/{position}", f"the union has two branches {label!r}: keep one")
            seen.add(label)
            branches.append(branch)
        return Union(branches=tuple(branches))

    def _record(self, words: dict[str, Any], namespace: str, path: str, depth: int) -> Record:
        name, aliases = self._name(words, namespace, path)
        record = Record(
            name=name,
            aliases=aliases,
            doc=_doc(words, path),
            is_error=words["type"] == "error",
            properties=_properties(words, {"type", "name", "namespace", "aliases", "doc", "fields"}),
        )
        self.named[name] = record
        listed = _needed(words, "fields", path)
        if not isinstance(listed, list):
            raise _fault(f"{path}/fields", f"{_cut(listed)} is not a list of fields")
        fields: list[Field] = []
        names: set[str] = set()
        for position, field_words in enumerate(listed):
            parsed = self._field(field_words, namespace_of(name), f"{path}/fields/{position}", depth)
            if parsed.name in names:
                raise _fault(f"{path}/fields/{position}", f"record {name} has two fields {parsed.name!r}: keep one")
            names.add(parsed.name)
            fields.append(parsed)
        record.fields = tuple(fields)
        # Only now are all types complete: a field's default may be a value of the record itself, in a map or an array.
        for position, one in enumerate(fields):
            if one.has_default and (why := self._defaults.why_not_a_value(one.default, one.type)):
                raise _fault(
                    f"{path}/fields/{position}/default", f"the default of field {one.name!r} does not fit its type: {why}"
                )
        return record

    def _field(self, words: Any, namespace: str, path: str, depth: int) -> Field:
        if not isinstance(words, dict):
            raise _fault(path, f"{_cut(words)} is not a field: give an object with name and type")
        name = words.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise _fault(path, f"{_cut(name)} is not a field's name: letters, digits and _ are, not beginning with a digit")
        order = words.get("order", "ascending")
        if order not in ("ascending", "descending", "ignore"):
            raise _fault(path, f"order {_cut(order)} of field {name!r} is none of ascending, descending, ignore")
        return Field(
            name=name,
            type=self._type(_needed(words, "type", path), namespace, f"{path}/type", depth + 1),
            default=words.get("default", ABSENT),
            aliases=_aliases(words, _NAME, path),
            order=order,
            doc=_doc(words, path),
            properties=_properties(words, {"name", "type", "default", "aliases", "order", "doc"}),
        )

    def _enum(self, words: dict[str, Any], namespace: str, path: str) -> Enum:
        name, aliases = self._name(words, namespace, path)
        symbols = _names(words, "symbols", _NAME, path, is_needed=True)
        distinct = frozenset(symbols)
        if len(distinct) != len(symbols):
            raise _fault(f"{path}/symbols", f"enum {name} has a symbol twice: keep one")
        default = words.get("default")
        if default is not None and (not isinstance(default, str) or default not in distinct):
            raise _fault(f"{path}/default", f"the default {_cut(default)} of enum {name} is none of its symbols")
        enum = Enum(
            name=name,
            symbols=symbols,
            default=default,
            aliases=aliases,
            doc=_doc(words, path),
            properties=_properties(words, {"type", "name", "namespace", "aliases", "doc", "symbols", "default"}),
        )
        self.named[name] = enum
        return enum

    def _fixed(self, words: dict[str, Any], namespace: str, path: str) -> Fixed:
        name, aliases = self._name(words, namespace, path)
        size = words.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
            raise _fault(f"{path}/size", f"fixed {name} has size {size!r}: give a number of bytes")
        fixed = Fixed(
            name=name,
            size=size,
            aliases=aliases,
            doc=_doc(words, path),
            properties=_properties(words, {"type", "name", "namespace", "aliases", "doc", "size"}),
        )
        self.named[name] = fixed
        return fixed

    def _name(self, words: dict[str, Any], namespace: str, path: str) -> tuple[str, tuple[str, ...]]:
        """Return a named type's full name and its aliases' full names; refuse a name that is in use."""
        name, own = words.get("name"), words.get("namespace", namespace)
        if not isinstance(name, str) or not _FULL_NAME.fullmatch(name):
            raise _fault(path, f"{_cut(name)} is no {words['type']}'s name: letters, digits and _ are, with dots between parts")
        if not isinstance(own, str) or (own and not _FULL_NAME.fullmatch(own)):
            raise _fault(path, f"{_cut(own)} is not a namespace: parts of letters, digits and _ with dots between")
        if len(name) + len(own) >= NAME_LIMIT:
            raise _fault(
                path, f"the name {_cut(name)} in namespace {_cut(own)} is longer than {NAME_LIMIT} characters: shorten it"
            )
        full = full_name(name, own)
        if full in PRIMITIVES:
            raise _fault(path, f"{full!r} is the name of a primitive type: choose another")
        if full in self.named:
            raise _fault(path, f"the name {full!r} is defined twice: define it once and use its name afterwards")
        aliases = _aliases(words, _FULL_NAME, path)
        return full, tuple(full_name(alias, namespace_of(full)) for alias in aliases)


def _needed(words: dict[str, Any], name: str, path: str) -> Any:
    if name not in words:
        raise _fault(path, f"the {words.get('type', 'field')} {_cut(words.get('name', ''))} has no {name!r}")
    return words[name]


def _names(words: dict[str, Any], name: str, form: re.Pattern[str], path: str, *, is_needed: bool = False) -> tuple[str, ...]:
    listed = _needed(words, name, path) if is_needed else words.get(name, [])
    if not isinstance(listed, list):
        raise _fault(f"{path}/{name}", f"{_cut(listed)} is not a list of names")
    for one in listed:
        if not isinstance(one, str) or not form.fullmatch(one):
            raise _fault(f"{path}/{name}", f"{_cut(one)} is not a name: letters, digits and _ are, not beginning with a digit")
    return tuple(listed)


def _aliases(words: dict[str, Any], form: re.Pattern[str], path: str) -> tuple[str, ...]:
    aliases = _names(words, "aliases", form, path)
    if len(aliases) > ALIAS_LIMIT or any(len(alias) > NAME_LIMIT for alias in aliases):
        raise _fault(
            f"{path}/aliases", f"more than {ALIAS_LIMIT} aliases, or one longer than {NAME_LIMIT} characters: remove some"
        )
    return aliases


def _doc(words: dict[str, Any], path: str) -> str | None:
    doc = words.get("doc")
    if doc is not None and not isinstance(doc, str):
        raise _fault(f"{path}/doc", f"{_cut(doc)} is not text")
    return doc


def _properties(words: dict[str, Any], known: set[str]) -> Properties:
    return tuple((name, value) for name, value in words.items() if name not in known)


def _cut(words: Any) -> str:
    text = repr(words)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _fault(path: str, what: str) -> InvalidSchema:
    return InvalidSchema(f"at {path or '/'}: {what}")
