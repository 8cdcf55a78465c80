"""A parsed schema: its types, its canonical text, its references. Callers that have a text start here.

Two parsers must accept a schema: ours, which knows every rule and names the faulty place, and fastavro's, which reads the data.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import fastavro.schema

from ..errors import InvalidSchema
from .avro_parser import AvroParser, json_of
from .avro_types import AvroType
from .canonical import canonical_text, fingerprint, parsing_canonical_form
from .opaque import AVRO
from .reference import Reference
from .self_contained import DEPTH_LIMIT, self_contained


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """An Avro schema that both parsers accept."""

    text: str
    """The canonical text; referenced types are named in it, not written."""
    references: tuple[Reference, ...]
    referenced: tuple[str, ...]
    """The texts of all references, each after those that it needs."""
    type: AvroType

    @property
    def content(self) -> tuple[str, tuple[Reference, ...], str]:
        return self.text, self.references, AVRO

    @property
    def self_contained(self) -> str:
        """The text with the referenced types written in full."""
        return self_contained(self.text, self.referenced)

    @property
    def parsing_canonical_form(self) -> str:
        return parsing_canonical_form(self.self_contained)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.self_contained)


def parse_schema(
    text: str,
    references: Sequence[Reference] = (),
    referenced: Sequence[str] = (),
    *,
    is_normalized: bool = False,
    is_stored: bool = False,
) -> Schema:
    """Return the schema that `text` declares.

    `referenced` holds the texts of all references, each after those that it needs. `is_stored`: the text comes from the
    topic, so numbers are taken that earlier versions stored. Raises `InvalidSchema` with the path.
    """
    try:
        return _parsed(text, references, referenced, is_normalized, is_stored)
    except RecursionError as error:
        raise InvalidSchema(f"the schema is nested deeper than {DEPTH_LIMIT} levels: flatten it") from error


def _parsed(
    text: str, references: Sequence[Reference], referenced: Sequence[str], is_normalized: bool, is_stored: bool
) -> Schema:
    parser = AvroParser()
    for one in referenced:
        parser.parse(json_of(one, is_stored=True))
    for reference in references:
        if reference.name not in parser.named:
            defined = ", ".join(sorted(parser.named)) or "nothing"
            raise InvalidSchema(
                f"version {reference.version} of {reference.subject!r} does not define {reference.name!r}, it defines {defined}"
            )
    known = frozenset(parser.named)
    avro_type = parser.parse(json_of(text, is_stored=is_stored))
    canonical = canonical_text(avro_type, known, is_normalized=is_normalized)
    try:
        canonical.encode()
    except UnicodeEncodeError as error:
        raise InvalidSchema(f"the schema holds half a surrogate pair, which is not a character: {error.reason}") from error
    schema = Schema(
        text=canonical,
        references=tuple(references),
        referenced=tuple(referenced),
        type=avro_type,
    )
    _accepted_by_fastavro(schema)
    return schema


def _accepted_by_fastavro(schema: Schema) -> None:
    try:
        fastavro.schema.parse_schema(json.loads(schema.self_contained))
    except Exception as error:  # fastavro raises KeyError, AttributeError and others for schemas it cannot use
        raise InvalidSchema(f"fastavro cannot use the schema: {type(error).__name__}: {error}") from error
