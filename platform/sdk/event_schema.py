"""Schemas of events: an Avro record that carries its event time and the producing server's name. Pure.

Source: the 2011 paper, section 4: every message carries a creation timestamp and the producing server.
"""

from collections.abc import Sequence
from typing import Any

EVENT_TIME = "event_time"
SERVER = "server"
TRACE_ID = "trace_id"
SPAN_ID = "span_id"
NAMESPACE = "headrace.events"

Schema = dict[str, Any]


def event_schema(
    name: str, fields: Sequence[Schema], *, namespace: str = NAMESPACE, doc: str | None = None, tracing: bool = False
) -> Schema:
    """Return an Avro record schema of `fields` behind `event_time` (timestamp-millis) and `server`, which the logger fills in.

    With `tracing`, two more fields take OpenTelemetry's `trace_id` and `span_id` (hex; null outside of a span).
    """
    words: Schema = {"type": "record", "name": name, "namespace": namespace}
    if doc is not None:
        words["doc"] = doc
    words["fields"] = [
        {"name": EVENT_TIME, "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": SERVER, "type": "string"},
        *fields,
        *([nullable(TRACE_ID, "string"), nullable(SPAN_ID, "string")] if tracing else []),
    ]
    return words


def nullable(name: str, avro_type: str | Schema) -> Schema:
    """Return a field that may be missing."""
    return {"name": name, "type": ["null", avro_type], "default": None}
