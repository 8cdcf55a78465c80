"""A record as JSON. Pure."""

from typing import Any

from ...reader.decoding.json_value import json_value
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
