"""Makes one schema text from a schema and the schemas it references, so that a decoder needs nothing else. Pure.

Each referenced type is written in full where it is first named; later mentions stay names. Types that are not referenced are left
out.
"""

import json
from collections.abc import Sequence
from typing import Any

from ..errors import InvalidSchema

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
DEPTH_LIMIT = 64
"""Schemas nested deeper than this are refused: they would exhaust the stack of every reader."""


def full_name(name: str, namespace: str | None) -> str:
    """Return the full name of `name` inside `namespace` (None or "" for none)."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def self_contained(schema: str, referenced: Sequence[str]) -> str:
    """Return `schema` with every type that it names from `referenced` written in full at its first mention.

    `referenced` holds the schema texts of all references, indirect ones included, in any order. A schema without references is
    returned unchanged.
    """
    if not referenced:
        return schema
    definitions: dict[str, tuple[Any, str]] = {}
    for text in referenced:
        _collect(json.loads(text), "", definitions, 0)
    return json.dumps(_inlined(json.loads(schema), "", definitions, set(), 0), separators=(",", ":"))


def _enclosing(words: dict[str, Any], namespace: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace of the types inside it."""
    name = str(words.get("name", ""))
    full = full_name(name, words.get("namespace", namespace))
    return full, full.rpartition(".")[0]


def _collect(words: Any, namespace: str, definitions: dict[str, tuple[Any, str]], depth: int) -> None:
    _check_depth(depth)
    if isinstance(words, list):
        for branch in words:
            _collect(branch, namespace, definitions, depth + 1)
    elif isinstance(words, dict):
        kind = words.get("type")
        if kind in ("array", "map"):
            _collect(words.get("items", words.get("values")), namespace, definitions, depth + 1)
        elif isinstance(kind, str) and kind in NAMED:
            full, inner = _enclosing(words, namespace)
            definitions.setdefault(full, (words, namespace))
            for field in words.get("fields", ()):
                _collect(field["type"], inner, definitions, depth + 1)
        elif isinstance(kind, dict | list):
            _collect(kind, namespace, definitions, depth + 1)


def _inlined(words: Any, namespace: str, definitions: dict[str, tuple[Any, str]], written: set[str], depth: int) -> Any:
    _check_depth(depth)
    if isinstance(words, str):
        full = full_name(words, namespace)
        if words in PRIMITIVES or full in written or full not in definitions:
            return words if words in PRIMITIVES else full
        definition, defined_in = definitions[full]
        return _inlined(definition, defined_in, definitions, written, depth + 1)
    if isinstance(words, list):
        return [_inlined(branch, namespace, definitions, written, depth + 1) for branch in words]
    kind = words.get("type")
    if kind in ("array", "map"):
        inside = "items" if kind == "array" else "values"
        return {**words, inside: _inlined(words[inside], namespace, definitions, written, depth + 1)}
    if isinstance(kind, str) and kind in NAMED:
        full, inner = _enclosing(words, namespace)
        if full in written:
            return full
        written.add(full)
        # The namespace is always written: the definition has moved, so it is inside another namespace now.
        plain = {**words, "name": full.rpartition(".")[2], "namespace": inner}
        if "fields" in words:
            plain["fields"] = [
                {**field, "type": _inlined(field["type"], inner, definitions, written, depth + 1)} for field in words["fields"]
            ]
        return plain
    if isinstance(kind, str) and len(words) == 1:
        return _inlined(kind, namespace, definitions, written, depth + 1)
    return {**words, "type": _inlined(kind, namespace, definitions, written, depth + 1)}


def _check_depth(depth: int) -> None:
    if depth > DEPTH_LIMIT:
        raise InvalidSchema(f"the schema is nested deeper than {DEPTH_LIMIT} levels: flatten it")
