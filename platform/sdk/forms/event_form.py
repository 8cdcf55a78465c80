"""What `EventLogger` was given to describe its events: a schema, or a class of which the schema is derived. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .field_types import Convert
from .tracing import has_trace_fields, with_trace_ids
from .typed_events import converter_of, schema_of

Described = Mapping[str, Any] | str | type
"""An Avro schema, as words or as JSON; or a dataclass or TypedDict."""


@dataclass(frozen=True, slots=True)
class EventForm:
    """The schema of a logger's events, and how what `log` is given becomes a mapping of its fields."""

    schema: Mapping[str, Any] | str
    to_mapping: Convert | None
    """Raises `EventRefused`. None: events are such mappings already."""


def form_of(described: Described) -> EventForm:
    """Return the form. Raises `SchemaRefused` for a class that cannot be mapped; a schema is checked by the encoder."""
    convert = converter_of(described) if isinstance(described, type) else None
    schema = schema_of(described) if isinstance(described, type) else described
    if not _is_traced(schema):
        return EventForm(schema, convert)
    if convert is None:
        return EventForm(schema, with_trace_ids)
    return EventForm(schema, lambda event: with_trace_ids(convert(event)))


def _is_traced(schema: Mapping[str, Any] | str) -> bool:
    try:
        return has_trace_fields(json.loads(schema) if isinstance(schema, str) else schema)
    except ValueError:
        return False
