"""Decodes a record's payload into its event with the writer's schema, or reports why it cannot.

An unusable payload is data: it goes to quarantine. A registry that does not answer is not: its error passes through, retriable.
"""

import io
import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

import fastavro

from ...errors import HeadraceError
from ...schema_registry.client import UnknownSchemaId
from ...wire.errors import NotFramed
from ...wire.schema_id import SIZE, frame, unframe
from .class_form import Build, DoesNotFit, builder_of, check_class
from .flat_event import flat_event

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

    def __init__(self, schemas: Schemas, event_class: type | None = None) -> None:
        """With `event_class` (a dataclass or TypedDict) events are its instances, else dicts. Raises SchemaRefused for a class
        whose types cannot be read.
        """
        if event_class is not None:
            check_class(event_class)
        self._schemas = schemas
        self._event_class = event_class
        self._used: OrderedDict[int, tuple[Any, Build | None]] = OrderedDict()
        """Schema id → the parsed schema, and what makes an instance of an event."""
        self._flat: dict[bytes, tuple[int, Callable[[bytes], Any]]] = {}
        """The envelope of a schema among `_used` → its id, and what decodes its payloads in C."""

    def decode(self, payload: bytes | None) -> Any:
        """Return the event. Raises as `decode_framed`."""
        return self.decode_framed(payload)[1]

    def decode_framed(self, payload: bytes | None) -> tuple[int, Any]:
        """Return its schema's id and the event. Raises Undecodable, and the registry client's error when the registry does not
        answer. Hot: once per record.
        """
        if payload is not None and (flat := self._flat.get(payload[:SIZE])) is not None:
            schema_id, make = flat
            event = make(payload)
            if event is not None:
                return schema_id, event
        return self._decode_carefully(payload)

    def _decode_carefully(self, payload: bytes | None) -> tuple[int, Any]:
        if payload is None:
            raise Undecodable("no_payload", "the record has no payload")
        try:
            schema_id, body = unframe(payload)
        except NotFramed as error:
            raise Undecodable("not_framed", str(error)) from error
        schema, build = self._schema(schema_id)
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
        if build is None:
            return schema_id, event
        try:
            return schema_id, build(event)
        except Exception as error:  # a class may refuse its values in `__post_init__`, by any error
            said = str(error) if isinstance(error, DoesNotFit) else f"{type(error).__name__}: {error}"
            raise Undecodable(
                "class_mismatch", f"an event of schema {schema_id} does not fit the class {self._class_name}: {said}"
            ) from error

    @property
    def _class_name(self) -> str:
        return "dict" if self._event_class is None else self._event_class.__name__

    def _schema(self, schema_id: int) -> tuple[Any, Build | None]:
        known = self._used.get(schema_id)
        if known is not None:
            self._used.move_to_end(schema_id)
            return known
        try:
            text = self._schemas.schema(schema_id)
        except UnknownSchemaId as error:
            raise Undecodable("unknown_schema_id", str(error)) from error
        try:
            words = json.loads(text)
            parsed = fastavro.parse_schema(words)
        except Exception as error:
            raise Undecodable("unusable_schema", f"schema {schema_id} cannot be used: {type(error).__name__}: {error}") from error
        try:
            build = None if self._event_class is None else builder_of(self._event_class, words)
        except DoesNotFit as error:
            build = _refusing(f"no event of its schema is: {error}")
        self._used[schema_id] = parsed, build
        if (make := flat_event(self._event_class, words)) is not None:
            self._flat[frame(schema_id, b"")] = schema_id, make
        while len(self._used) > MOST_SCHEMAS:
            oldest, _ = self._used.popitem(last=False)
            self._flat.pop(frame(oldest, b""), None)
        return parsed, build


def _refusing(why: str) -> Build:
    """Return what refuses each event, so that the schema is compared with the class once."""

    def build(_: Any) -> Any:
        raise DoesNotFit(why)

    return build
