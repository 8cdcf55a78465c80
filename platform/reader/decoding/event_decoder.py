"""Decodes a record's payload into its event with the writer's schema, or reports why it cannot.

An unusable payload is data: it goes to quarantine. A registry that does not answer is not: its error passes through, retriable.
"""

import io
import json
from collections import OrderedDict
from typing import Any, Protocol

import fastavro

from ...errors import HeadraceError
from ...schema_registry.client import UnknownSchemaId
from ...wire.errors import NotFramed
from ...wire.schema_id import unframe

MOST_SCHEMAS = 1_000


class Schemas(Protocol):
    """The one method of `schema_registry.client.RegistryClient` that is used here."""

    def schema(self, schema_id: int, /) -> str: ...


class Undecodable(HeadraceError):
    """The payload holds no readable event. `code` is the quarantine record's."""

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        super().__init__(reason)


class EventDecoder:
    """Decodes payloads; caches the schemas it has used."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._parsed: OrderedDict[int, Any] = OrderedDict()

    def decode(self, payload: bytes | None) -> Any:
        """Return the event. Raises Undecodable, and the registry client's error when the registry does not answer."""
        if payload is None:
            raise Undecodable("no_payload", "the record has no payload")
        try:
            schema_id, body = unframe(payload)
        except NotFramed as error:
            raise Undecodable("not_framed", str(error)) from error
        schema = self._schema(schema_id)
        source = io.BytesIO(body)
        try:
            event = fastavro.schemaless_reader(source, schema)
        except Exception as error:  # fastavro raises any error that the bytes lead to: EOFError, IndexError, …
            raise Undecodable(
                "schema_mismatch", f"{len(body)} bytes are no event of schema {schema_id}: {type(error).__name__}: {error}"
            ) from error
        if source.tell() != len(body):
            rest = len(body) - source.tell()
            raise Undecodable("schema_mismatch", f"{rest} bytes are left over behind the event of schema {schema_id}")
        return event

    def _schema(self, schema_id: int) -> Any:
        known = self._parsed.get(schema_id)
        if known is not None:
            self._parsed.move_to_end(schema_id)
            return known
        try:
            text = self._schemas.schema(schema_id)
        except UnknownSchemaId as error:
            raise Undecodable("unknown_schema_id", str(error)) from error
        try:
            parsed = fastavro.parse_schema(json.loads(text))
        except Exception as error:
            raise Undecodable("unusable_schema", f"schema {schema_id} cannot be used: {type(error).__name__}: {error}") from error
        self._parsed[schema_id] = parsed
        while len(self._parsed) > MOST_SCHEMAS:
            self._parsed.popitem(last=False)
        return parsed
