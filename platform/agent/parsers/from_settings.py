"""The parser and the schema that a section of agent.toml asks for. Pure, but that it reads the section's schema file."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...sdk.encoding.event_encoder import EventEncoder
from ...sdk.event_schema import event_schema, nullable
from ..section_reader import SectionReader
from .access_log import AccessLogParser
from .event_times import TimeFormat
from .json_lines import JsonLinesParser
from .named_groups import READERS, NamedGroupsParser
from .parser import LineParser
from .raw_line import RawLineParser

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PARSERS = ("access_log", "json", "regex", "raw")
PARSER_WORDS = {
    "access_log": (),
    "raw": ("invalid_utf8",),
    "json": ("fields", "schema", "record", "unknown_fields", "time", "time_format", "time_zone", "invalid_utf8"),
    "regex": ("pattern", "fields", "record", "time", "time_format", "time_zone", "invalid_utf8"),
}


def parser_from(kind: str, reader: SectionReader, topic: str) -> LineParser | None:
    replace_invalid = (
        "invalid_utf8" in PARSER_WORDS[kind]
        and reader.choice("invalid_utf8", ("quarantine", "replace"), "quarantine") == "replace"
    )
    if kind == "access_log":
        return AccessLogParser()
    if kind == "raw":
        return RawLineParser(replace_invalid=replace_invalid)
    time_format = reader.tried(
        "time_format", lambda: TimeFormat(reader.text("time_format") or "iso8601", reader.text("time_zone") or "UTC")
    )
    time_name = reader.text("time") or None
    types = types_from(reader)
    record = reader.text("record") or record_name(topic)
    if kind == "regex":
        pattern = reader.text("pattern", needed=True)
        if reader.faults:
            return None
        found: LineParser | None = reader.tried(
            "pattern",
            lambda: NamedGroupsParser(
                pattern, name=record, types=types, time_group=time_name, time_format=time_format, replace_invalid=replace_invalid
            ),
        )
        return found
    schema = schema_from(reader, types, record)
    drop_unknown = reader.choice("unknown_fields", ("quarantine", "drop"), "quarantine") == "drop"
    if reader.faults:
        return None
    return JsonLinesParser(
        schema, time_field=time_name, time_format=time_format, drop_unknown=drop_unknown, replace_invalid=replace_invalid
    )


def types_from(reader: SectionReader) -> dict[str, str]:
    fields = reader.words.get("fields", {})
    if not isinstance(fields, Mapping):
        reader.fault("fields", 'write a table of names and types: fields = { status = "int" }')
        return {}
    for name, avro_type in fields.items():
        if not _FIELD.fullmatch(name):
            reader.fault("fields", f"{name!r} can be no field of an Avro schema: use letters, digits and _")
        if avro_type not in READERS:
            reader.fault("fields", f"{name} = {avro_type!r}: give one of {', '.join(READERS)}")
    return {name: avro_type for name, avro_type in fields.items() if avro_type in READERS}


def schema_from(reader: SectionReader, types: Mapping[str, str], record: str) -> dict[str, Any]:
    path = reader.text("schema")
    if bool(path) == bool(types):
        reader.fault("schema", 'give the file of an Avro schema, or fields = { name = "string", … }; one of the two')
        return {}
    words = (
        reader.tried("schema", lambda: json.loads(Path(path).read_text()))
        if path
        else event_schema(record, [nullable(name, avro_type) for name, avro_type in types.items()])
    )
    if words is not None:
        reader.tried("schema" if path else "fields", lambda: EventEncoder(words))
    return words or {}


def record_name(topic: str) -> str:
    """Return a record's name for a topic: `web-shop.clicks` is WebShopClicks."""
    name = "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", topic))
    return name if name[:1].isalpha() else f"Topic{name}"
