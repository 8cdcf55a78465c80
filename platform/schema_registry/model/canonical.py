"""The canonical text of a schema: equal types give equal text, whatever the layout. It keeps everything that a reader may need
(docs, defaults, aliases, logical types, foreign attributes). It is the text that is stored, compared and given an id.

Avro's own "parsing canonical form" drops all of these; here it only serves fingerprints, through fastavro.
"""

import json
from typing import Any

import fastavro.schema

from .avro_types import (
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
    short_name,
)


def canonical_text(avro_type: AvroType, known: frozenset[str] = frozenset(), *, is_normalized: bool = False) -> str:
    """Return the schema as compact JSON with its attributes in a fixed order.

    Types in `known` (defined by references) are named, not written. If normalised, foreign attributes are sorted too.
    """
    return json.dumps(_Writer(set(known), is_normalized).words(avro_type, ""), separators=(",", ":"), ensure_ascii=False)


def parsing_canonical_form(self_contained_schema: str) -> str:
    """Return Avro's parsing canonical form of a schema text that needs no references."""
    form: str = fastavro.schema.to_parsing_canonical_form(json.loads(self_contained_schema))
    return form


def fingerprint(self_contained_schema: str) -> str:
    """Return the 64-bit Rabin fingerprint of the parsing canonical form, 16 hexadecimal digits (Avro's single-object order)."""
    print_: str = fastavro.schema.fingerprint(parsing_canonical_form(self_contained_schema), "CRC-64-AVRO")
    return print_


class _Writer:
    def __init__(self, written: set[str], is_normalized: bool) -> None:
        self._written = written
        self._is_normalized = is_normalized

    def words(self, avro_type: AvroType, namespace: str) -> Any:
        match avro_type:
            case Primitive():
                foreign = self._foreign(avro_type.properties)
                return {"type": avro_type.kind, **foreign} if foreign else avro_type.kind
            case Array():
                return {
                    "type": "array",
                    "items": self.words(avro_type.items, namespace),
                    **self._foreign(avro_type.properties),
                }
            case Map():
                return {
                    "type": "map",
                    "values": self.words(avro_type.values, namespace),
                    **self._foreign(avro_type.properties),
                }
            case Union():
                return [self.words(branch, namespace) for branch in avro_type.branches]
            case Record() | Enum() | Fixed():
                return self._named(avro_type, namespace)

    def _named(self, named: Named, namespace: str) -> Any:
        if named.name in self._written:
            return named.name
        self._written.add(named.name)
        own = namespace_of(named.name)
        kind = "error" if isinstance(named, Record) and named.is_error else named.kind
        words: dict[str, Any] = {"type": kind, "name": short_name(named.name)}
        if own != namespace:
            words["namespace"] = own
        if named.doc is not None:
            words["doc"] = named.doc
        match named:
            case Record():
                words["fields"] = [self._field(field, own) for field in named.fields]
            case Enum():
                words["symbols"] = list(named.symbols)
                if named.default is not None:
                    words["default"] = named.default
            case Fixed():
                words["size"] = named.size
        words.update(self._foreign(named.properties))
        if named.aliases:
            words["aliases"] = [short_name(alias) if namespace_of(alias) == own else alias for alias in named.aliases]
        return words

    def _field(self, field: Field, namespace: str) -> dict[str, Any]:
        words: dict[str, Any] = {"name": field.name, "type": self.words(field.type, namespace)}
        if field.doc is not None:
            words["doc"] = field.doc
        if field.has_default:
            words["default"] = field.default
        if field.order != "ascending":
            words["order"] = field.order
        words.update(self._foreign(field.properties))
        if field.aliases:
            words["aliases"] = list(field.aliases)
        return words

    def _foreign(self, properties: Properties) -> dict[str, Any]:
        return dict(sorted(properties)) if self._is_normalized else dict(properties)
