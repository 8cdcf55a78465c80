"""A record as JSON. Pure."""

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from ...reader.record import EventRecord


def words_of(record: EventRecord) -> dict[str, Any]:
    """Return a record as JSON values: id, place, time, key, and the event."""
    one = record.message
    return {
        "id": record.id,
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "timestamp_ms": one.timestamp_ms,
        "key": None if one.key is None else one.key.decode("utf-8", "backslashreplace"),
        "event": json_value(record.event),
    }


def json_value(value: Any) -> Any:
    """Return a decoded Avro value as JSON: times as ISO 8601, bytes as base64, what JSON has no number for as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return {str(name): json_value(one) for name, one in value.items()}
        case list() | tuple():
            return [json_value(one) for one in value]
        case Decimal() | UUID():
            return str(value)
    return str(value)
