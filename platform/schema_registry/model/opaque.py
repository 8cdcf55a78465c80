"""Schemas of other kinds than Avro: stored and served, never compared. Pure.

A subject's first version is accepted at every level. A second one needs level NONE: the registry does not know which versions of
a JSON Schema or of a .proto file read each other's data, and must not call them compatible.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InvalidSchema
from .avro_parser import finite, no_constant
from .reference import Reference

AVRO = "AVRO"
OPAQUE_TYPES = ("JSON", "PROTOBUF")
SCHEMA_TYPES = (AVRO, *OPAQUE_TYPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueSchema:
    """A schema that is kept as its text."""

    text: str
    references: tuple[Reference, ...]
    schema_type: str

    @property
    def content(self) -> tuple[str, tuple[Reference, ...], str]:
        return self.text, self.references, self.schema_type


def opaque_schema(text: str, references: Sequence[Reference], schema_type: str, *, is_normalized: bool = False) -> OpaqueSchema:
    """Return the schema. Raises InvalidSchema for a JSON Schema that is not a JSON object or boolean; a .proto is not read."""
    if schema_type == "JSON":
        try:
            words = json.loads(text, parse_constant=no_constant, parse_float=finite)
        except (ValueError, RecursionError) as error:
            raise InvalidSchema(f"the JSON Schema is not JSON: {error}") from error
        if not isinstance(words, dict | bool):
            raise InvalidSchema("a JSON Schema is an object, true or false")
        text = json.dumps(words, sort_keys=True, separators=(",", ":")) if is_normalized else text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidSchema(f"the schema holds half a surrogate pair, which is not a character: {error.reason}") from error
    return OpaqueSchema(text=text, references=tuple(references), schema_type=schema_type)
