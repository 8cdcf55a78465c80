"""From an event to its Avro body, or to the reason why not. Pure: no schema id, no clock.

Each event is validated before it is written, because the writer alone lets pass what no reader should see: 2**31 as an int, 1.5
as a long, true as 1, a misspelt field left out in silence.
"""

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException
from fastavro.validation import ValidationError, validate

from .errors import EventRefused, SchemaRefused
from .event_schema import EVENT_TIME, SERVER

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class EventEncoder:
    """Encodes events of one schema."""

    def __init__(self, schema: Mapping[str, Any] | str) -> None:
        """Raises `SchemaRefused` for what is no Avro record with `event_time` (timestamp-millis) and `server` (string)."""
        try:
            words = json.loads(schema) if isinstance(schema, str) else json.loads(json.dumps(schema))
            self._parsed = fastavro.parse_schema(words)
        except (ValueError, TypeError, KeyError, SchemaParseException) as error:
            raise SchemaRefused(f"the schema of the events is no Avro schema: {error!r}") from error
        fields = {field["name"]: field["type"] for field in words.get("fields", [])} if isinstance(words, dict) else {}
        time_type = fields.get(EVENT_TIME)
        if not isinstance(time_type, dict) or (time_type.get("type"), time_type.get("logicalType")) != (
            "long",
            "timestamp-millis",
        ):
            raise SchemaRefused(
                f"the schema of the events needs a field {EVENT_TIME!r}, long timestamp-millis: make it with event_schema()"
            )
        if fields.get(SERVER) != "string":
            raise SchemaRefused(f"the schema of the events needs a field {SERVER!r}, string: make it with event_schema()")
        self.text = json.dumps(words)
        """The schema as it is registered."""
        self._names = frozenset(fields)
        self.record_name = ".".join(word for word in (words.get("namespace"), words["name"]) if word)
        """The schema's full name."""
        self._prefix = f"{self.record_name}."

    def encode(self, event: Mapping[str, Any]) -> bytes:
        """Return the event's Avro body. Raises `EventRefused` with the field's path, its value and the expected type."""
        try:
            if not validate(event, self._parsed, raise_errors=False):
                raise self._refusal(event)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, self._parsed, event, strict_allow_default=True)
        except EventRefused:
            raise
        except UnicodeEncodeError as error:
            raise EventRefused("", error.object, "text that UTF-8 can hold") from error
        except Exception as error:
            # Whatever an application hands over (a mapping that fails, say) is the event's fault, never a crash here.
            unknown = sorted(set(event) - self._names, key=str) if isinstance(event, Mapping) else []
            if unknown:
                raise EventRefused(str(unknown[0]), event[unknown[0]], "no such field in the schema") from error
            raise EventRefused("", event, f"an event of its schema ({error})") from error
        return out.getvalue()

    def _refusal(self, event: Mapping[str, Any]) -> EventRefused:
        if not isinstance(event, Mapping):
            return EventRefused("", event, "a mapping of field names to values")
        try:
            validate(event, self._parsed, raise_errors=True)
        except ValidationError as error:
            faults = [one for one in error.errors if one.field] or list(error.errors)
            first = faults[0]
            path = str(first.field).removeprefix(self._prefix)
            expected = " or ".join(dict.fromkeys(_type_name(one.schema) for one in faults if one.field == first.field))
            if path in self._names and path not in event:
                expected += " (it is missing)"
            return EventRefused(path, first.datum, expected)
        return EventRefused("", event, "an event of its schema")


def event_time_ms_of(value: Any) -> int | None:
    """Return an instant given as ms since the epoch or as an aware datetime; None for anything else, and before the epoch."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = (value - _EPOCH) // _MILLISECOND
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62:
        return value
    return None


def _type_name(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(
            schema.get("logicalType")
            or (schema.get("name") if schema.get("type") in ("record", "enum", "fixed") else schema["type"])
        )
    return str(schema)
