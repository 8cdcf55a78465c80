"""Encodes with fastavro, and puts its refusals into words. Slow; it decides what the fast writers leave open.

Each event is validated before it is written, because the writer alone lets pass what no reader should see: 2**31 as an int, 1.5
as a long, true as 1, a misspelt field left out silently.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
from fastavro.validation import ValidationError, validate

from ..errors import EventRefused

MOST_NESTED = 500
"""Levels of an event of a schema that contains itself. fastavro would overrun the C stack on an event without an end."""


class Reference:
    """Encodes whole events of one schema; `event_time` and `server` are in them."""

    def __init__(self, parsed_schema: Any, record_name: str, *, is_recursive: bool) -> None:
        """Takes the schema as `fastavro.parse_schema` returns it, and whether one of its records can contain itself."""
        self._parsed = parsed_schema
        self._names = frozenset(field["name"] for field in parsed_schema["fields"])
        self._prefix = f"{record_name}."
        self._is_recursive = is_recursive

    def encode(self, event: Mapping[str, Any]) -> bytes:
        """Return the event's Avro body. Raises `EventRefused` with the field's path, its value and the expected type."""
        try:
            if self._is_recursive and _is_deeper(event, MOST_NESTED):
                raise EventRefused("", event, f"an event nested at most {MOST_NESTED} deep")
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
            unknown = sorted(set(event) - self._names, key=str)
            if unknown:
                raise EventRefused(str(unknown[0]), event[unknown[0]], "no such field in the schema") from error
            raise EventRefused("", event, f"an event of its schema ({error})") from error
        return out.getvalue()

    def _refusal(self, event: Mapping[str, Any]) -> EventRefused:
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


def _is_deeper(event: Any, levels: int) -> bool:
    waiting = [(event, 0)]
    while waiting:
        value, level = waiting.pop()
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes | bytearray):
            if level >= levels:
                return True
            waiting += [(part, level + 1) for part in (value.values() if isinstance(value, Mapping) else value)]
    return False


def _type_name(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(
            schema.get("logicalType")
            or (schema.get("name") if schema.get("type") in ("record", "enum", "fixed") else schema["type"])
        )
    return str(schema)
