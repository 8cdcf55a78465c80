"""An event as a sink gets it, and as JSON. Pure."""

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from ...client.consumer.stream_message import Message
from ...client.fetch.fetched import TopicPartition


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """One record and its decoded event."""

    message: Message
    schema_id: int
    event: Any

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.message.topic, self.message.partition)

    @property
    def id(self) -> str:
        """The key for de-duplication: where the record stands. It is the same however often the record is written."""
        return f"{self.message.topic}-{self.message.partition}-{self.message.offset}"

    @property
    def size_bytes(self) -> int:
        return len(self.message.value or b"") + len(self.message.key or b"")

    def words(self) -> dict[str, Any]:
        """Return it as JSON values: id, place, time, key, and the event."""
        one = self.message
        return {
            "id": self.id,
            "topic": one.topic,
            "partition": one.partition,
            "offset": one.offset,
            "timestamp_ms": one.timestamp_ms,
            "key": None if one.key is None else one.key.decode("utf-8", "backslashreplace"),
            "event": json_value(self.event),
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
