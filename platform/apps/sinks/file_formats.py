"""How records are written into a file: lines of JSON, or an Avro container."""

import json
from typing import Any, BinaryIO, Literal, Protocol

from ...reader.record import EventRecord
from .records import words_of

Format = Literal["ndjson", "avro"]
FORMATS: tuple[Format, ...] = ("ndjson", "avro")


class RecordFile(Protocol):
    """One file that is being written."""

    def write(self, record: EventRecord) -> None: ...

    def finish(self) -> None:
        """Write what is buffered; the file stays open."""


class JsonLinesFile:
    """One JSON object a line."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, record: EventRecord) -> None:
        self._file.write(json.dumps(words_of(record), ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def finish(self) -> None:
        self._file.flush()


class AvroFile:
    """An Avro object container: id, place, time and key beside the event, which keeps its writer's schema."""

    def __init__(self, file: BinaryIO, event_schema: dict[str, Any]) -> None:
        import fastavro.write

        self._file = file
        self._writer = fastavro.write.Writer(file, container_schema(event_schema), codec="deflate")

    def write(self, record: EventRecord) -> None:
        one = record.message
        self._writer.write(
            {
                "id": record.id,
                "topic": one.topic,
                "partition": one.partition,
                "offset": one.offset,
                "timestamp": one.timestamp_ms,
                "key": one.key,
                "event": record.event,
            }
        )

    def finish(self) -> None:
        self._writer.flush()
        self._file.flush()


def container_schema(event_schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a container's records around an event."""
    return {
        "type": "record",
        "name": "SinkRecord",
        "namespace": "headrace.sink",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "topic", "type": "string"},
            {"name": "partition", "type": "int"},
            {"name": "offset", "type": "long"},
            {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "key", "type": ["null", "bytes"]},
            {"name": "event", "type": event_schema},
        ],
    }


def suffix_of(form: Format, schema_id: int) -> str:
    """Return the end of a file's name."""
    return ".ndjson" if form == "ndjson" else f"-schema{schema_id}.avro"
