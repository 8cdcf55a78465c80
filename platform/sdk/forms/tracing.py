"""OpenTelemetry's ids of the current span, for schemas that have the fields `trace_id` and `span_id`.

The API is not imported: an application that traces has loaded it already, and others must not pay for it.
"""

import sys
from collections.abc import Mapping
from typing import Any

from ..event_schema import SPAN_ID, TRACE_ID

_NULLABLE_STRING = ["null", "string"]


def has_trace_fields(schema: Any) -> bool:
    """Return whether a record schema has both fields, each a string or null."""
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    if not isinstance(fields, list):
        return False
    types = {field.get("name"): field.get("type") for field in fields if isinstance(field, Mapping)}
    return types.get(TRACE_ID) == types.get(SPAN_ID) == _NULLABLE_STRING


def current_ids() -> tuple[str, str] | None:
    """Return the current trace id (32 hex digits) and span id (16); None outside of a span and without OpenTelemetry."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    try:
        context = trace.get_current_span().get_span_context()
        return (format(context.trace_id, "032x"), format(context.span_id, "016x")) if context.is_valid else None
    except Exception:
        # A tracer of the application's own, or a module that another thread is still importing: no reason to lose the event.
        return None


def with_trace_ids(event: Any) -> Any:
    """Return the event with the current span's ids, unless it has a trace id of its own."""
    if not isinstance(event, Mapping) or event.get(TRACE_ID) is not None:
        return event
    ids = current_ids()
    return event if ids is None else {**event, TRACE_ID: ids[0], SPAN_ID: ids[1]}
