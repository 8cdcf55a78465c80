"""Encodes events of one schema: the fast writer first, and fastavro wherever that one gives up."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from ...runtime.native import native
from ..errors import EventRefused, SchemaRefused
from ..event_schema import EVENT_TIME, SERVER
from .program import NotKnown, Program, compile_schema
from .python_writer import PythonWriter
from .reference import Reference
from .varints import varint

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class EventEncoder:
    """Encodes events of one schema."""

    def __init__(
        self, schema: Mapping[str, Any] | str, server_name: str | None = None, *, make_writer: "MakeWriter | None" = None
    ) -> None:
        """Raises `SchemaRefused` for what is not an Avro record with `event_time` (timestamp-millis) and `server` (string).

        `server_name` is the server of events that do not name theirs; without it they have to. `make_writer`: the fastest that
        there is, unless given.
        """
        try:
            words = json.loads(schema) if isinstance(schema, str) else json.loads(json.dumps(schema))
            parsed = fastavro.parse_schema(words)
        except (ValueError, TypeError, KeyError, SchemaParseException) as error:
            raise SchemaRefused(f"the schema of the events is not an Avro schema: {error!r}") from error
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
        self.record_name = ".".join(word for word in (words.get("namespace"), words["name"]) if word)
        """The schema's full name."""
        self.server_name = server_name
        self._defaults = {} if server_name is None else {SERVER: server_name}
        self._write, is_recursive = _fast_writer(parsed, server_name, make_writer or _fastest)
        self._reference = Reference(parsed, self.record_name, is_recursive=is_recursive)

    def encode(self, event: Mapping[str, Any], timestamp_ms: int) -> bytes:
        """Return the Avro body of the event at this event time (ms since the epoch), whichever the event itself names.

        Raises `EventRefused` with the field's path, its value and the expected type. Hot: once per event.
        """
        try:
            return self._write(event, timestamp_ms)
        except Exception:
            return self._encode_slowly(event, timestamp_ms)

    def _encode_slowly(self, event: Mapping[str, Any], timestamp_ms: int) -> bytes:
        if not isinstance(event, Mapping):
            raise EventRefused("", event, "a mapping of field names to values")
        try:
            filled = {**self._defaults, **event, EVENT_TIME: timestamp_ms}
        except Exception as error:
            raise EventRefused("", event, f"a mapping that can be read ({error!r})") from error
        return self._reference.encode(filled)


FastWriter = Callable[[Any, int], bytes]
"""Takes an event and its time. Raises whatever it likes where `Reference` is to decide."""


MakeWriter = Callable[[Program, bytes | None], FastWriter]
"""Makes one from a program and the name of the events' server, in UTF-8."""


def _fast_writer(parsed: Any, server_name: str | None, make_writer: MakeWriter) -> tuple[FastWriter, bool]:
    """Return the writer of a schema, and whether one of its records can contain itself."""
    try:
        program = compile_schema(parsed)
        server = None if server_name is None else server_name.encode()
        return make_writer(program, server), program.is_recursive
    except (NotKnown, RecursionError, UnicodeEncodeError):
        # fastavro writes what is not known here or is nested too deeply; for the name of a server without UTF-8, it refuses each.
        return _gives_up, True


def python_writer(program: Program, server: bytes | None) -> FastWriter:
    """Return the writer that needs nothing but Python."""
    return PythonWriter(program, server).encode


def native_writer(program: Program, server: bytes | None) -> FastWriter:
    """Return the writer of `headrace_native`, which is installed."""
    assert native is not None
    piece = None if server is None else varint(2 * len(server)) + server
    encode: FastWriter = native.EventWriter(program.records, piece, SERVER, EVENT_TIME).encode
    return encode


_fastest = python_writer if native is None else native_writer


def _gives_up(event: Any, timestamp_ms: int) -> bytes:
    raise NotKnown


def event_time_ms_of(value: Any) -> int | None:
    """Return an instant given as ms since the epoch or as an aware datetime; None for anything else, and before the epoch."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = (value - _EPOCH) // _MILLISECOND
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62:
        return value
    return None
