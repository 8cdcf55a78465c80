"""The `[[tail]]` sections of agent.toml: from the file's words to a dataclass, every fault named at once.

Pure, but that it reads the schema file that a section names.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import HeadraceError
from ...sdk.encoding.event_encoder import EventEncoder
from ...sdk.event_schema import event_schema, nullable
from ...wire.topic_name import fault_of
from ..parsers.access_log import AccessLogParser
from ..parsers.event_times import TimeFormat
from ..parsers.json_lines import JsonLinesParser
from ..parsers.named_groups import READERS, NamedGroupsParser
from ..parsers.parser import LineParser
from ..parsers.raw_line import RawLineParser
from .multiline import Multiline

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PARSERS = ("access_log", "json", "regex", "raw")


@dataclass(frozen=True, slots=True, kw_only=True)
class TailSettings:
    """One section. Times in ms, sizes in bytes."""

    name: str
    """Unique in its agent; keep it, the agent's positions go by it."""
    paths: tuple[str, ...]
    """Absolute patterns: `*`, `?`, `[…]`, and `**` for any folders."""
    exclude: tuple[str, ...] = ()
    """Patterns of names or of whole paths."""
    topic: str
    parser: LineParser
    application: str
    """Names the events' producer in the audit."""
    start: str = "beginning"
    """Or `end`: what stands in the files when the section is read for the first time is left out."""
    copytruncate: bool = False
    """Rotation copies a file and truncates it. What was not read yet is looked for in the copy, and a copy is not read twice."""
    multiline: Multiline | None = None
    most_line_bytes: int = 64 * 1024
    """A longer line goes to quarantine, with so much of its beginning."""
    most_files: int = 20_000
    most_open_files: int = 256
    lateness_ms: int = 60_000
    """Lines are at most so much older than the time they are written at."""
    rest_wait_ms: int = 5_000
    """What stands behind the last newline of a file that was rotated away is a line when the file did not grow for so long."""
    gone_wait_ms: int = 10_000
    """So long is a deleted file expected to turn up compressed."""


_NUMBERS = {
    "most_line_bytes": 16, "most_files": 1, "most_open_files": 1, "lateness_ms": 0, "rest_wait_ms": 0, "gone_wait_ms": 0,
}  # fmt: skip
_PARSER_WORDS = {
    "access_log": (),
    "raw": ("invalid_utf8",),
    "json": ("fields", "schema", "record", "unknown_fields", "time", "time_format", "time_zone", "invalid_utf8"),
    "regex": ("pattern", "fields", "record", "time", "time_format", "time_zone", "invalid_utf8"),
}
_EVERY = ("name", "paths", "exclude", "topic", "parser", "application", "start", "copytruncate", "multiline", *_NUMBERS)
_MULTILINE = ("start", "most_lines", "most_bytes", "timeout_ms")


def sections_from(tables: Sequence[Mapping[str, Any]], faults: list[str]) -> list[TailSettings]:
    """Return the sections, and append every fault of all of them, with what to do."""
    sections = [found for number, words in enumerate(tables, 1) if (found := section_from(words, number, faults)) is not None]
    names = [section.name for section in sections]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.append(f"[[tail]] {name!r}: two sections have this name: give each its own, with name = …")
    return sections


def section_from(words: Mapping[str, Any], number: int, faults: list[str]) -> TailSettings | None:
    """Return one section, or None where it has faults."""
    reader = _Reader(words, f"[[tail]] {words.get('name', number)!r}")
    topic = reader.text("topic", needed=True)
    if topic and (fault := fault_of(topic)) is not None:
        reader.fault("topic", fault)
    paths = reader.texts("paths", needed=True)
    for path in paths:
        if not os.path.isabs(path):
            reader.fault("paths", f"{path!r} is not absolute: begin it with /")
    kind = reader.choice("parser", PARSERS, None)
    values: dict[str, Any] = {name: reader.number(name, least) for name, least in _NUMBERS.items() if name in words}
    start = reader.choice("start", ("beginning", "end"), "beginning")
    copytruncate = reader.flag("copytruncate")
    multiline = _multiline(reader)
    exclude = reader.texts("exclude")
    application = reader.text("application") or topic
    if "/" in application:
        reader.fault("application", f"{application!r} is a part of the audit's instance name: leave out the /")
    name = reader.text("name") or topic
    if "/" in name or "#" in name:
        reader.fault("name", f"{name!r} begins the names of files: leave out / and #")
    for word in words:
        if word not in _EVERY and (kind is None or word not in _PARSER_WORDS[kind]):
            other = next((one for one in PARSERS if word in _PARSER_WORDS[one]), None)
            reader.fault(word, f"there is no such setting{'' if other is None else f' with this parser, only with {other!r}'}")
    parser = None if kind is None else _parser(kind, reader, topic)
    faults += reader.faults
    if reader.faults or parser is None:
        return None
    return TailSettings(
        name=name,
        paths=paths,
        exclude=exclude,
        topic=topic,
        parser=parser,
        application=application,
        start=start or "beginning",
        copytruncate=copytruncate,
        multiline=multiline,
        **values,
    )


class _Reader:
    """Reads one table's values and collects its faults."""

    def __init__(self, words: Mapping[str, Any], where: str) -> None:
        self.words = words
        self.where = where
        self.faults: list[str] = []

    def fault(self, name: str, what: str) -> None:
        self.faults.append(f"{self.where}: {name}: {what}")

    def text(self, name: str, *, needed: bool = False) -> str:
        value = self.words.get(name, "")
        if not isinstance(value, str):
            self.fault(name, f"{value!r} is no text: write it in quotes")
            return ""
        if needed and not value:
            self.fault(name, "it is missing")
        return str(value)

    def texts(self, name: str, *, needed: bool = False) -> tuple[str, ...]:
        value = self.words.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            self.fault(name, f'{value!r} is no list of texts: write ["…"]')
            return ()
        if needed and not value:
            self.fault(name, "it is missing: give a list of paths")
        return tuple(value)

    def number(self, name: str, least: int) -> int:
        value = self.words[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.fault(name, f"{value!r}: give a whole number from {least} on")
            return least
        return value

    def flag(self, name: str) -> bool:
        value = self.words.get(name, False)
        if not isinstance(value, bool):
            self.fault(name, f"{value!r}: give true or false")
        return value is True

    def choice(self, name: str, choices: Sequence[str], default: str | None) -> str | None:
        value = self.words.get(name, default)
        if value not in choices:
            self.fault(name, f"{'it is missing' if value is None else repr(value)}: give one of {', '.join(choices)}")
            return None
        return str(value)

    def tried(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what `make` returns, None where it raises."""
        try:
            return make()
        except (HeadraceError, re.error, OSError, ValueError) as error:
            self.fault(name, str(error))
            return None


def _multiline(reader: _Reader) -> Multiline | None:
    words = reader.words.get("multiline")
    if words is None:
        return None
    if not isinstance(words, Mapping):
        reader.fault("multiline", "write a table with start, most_lines, most_bytes, timeout_ms")
        return None
    inner = _Reader(words, f"{reader.where}: multiline")
    for word in words:
        if word not in _MULTILINE:
            inner.fault(word, f"there is no such setting; known are {', '.join(_MULTILINE)}")
    start = inner.text("start", needed=True)
    pattern = inner.tried("start", lambda: re.compile(start.encode()))
    numbers = {name: inner.number(name, 1) for name in _MULTILINE[1:] if name in words}
    reader.faults += inner.faults
    return None if inner.faults else Multiline(start=pattern, **numbers)


def _parser(kind: str, reader: _Reader, topic: str) -> LineParser | None:
    replace_invalid = (
        "invalid_utf8" in _PARSER_WORDS[kind]
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
    types = _types(reader)
    record = reader.text("record") or _record_name(topic)
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
    schema = _schema(reader, types, record)
    drop_unknown = reader.choice("unknown_fields", ("quarantine", "drop"), "quarantine") == "drop"
    if reader.faults:
        return None
    return JsonLinesParser(
        schema, time_field=time_name, time_format=time_format, drop_unknown=drop_unknown, replace_invalid=replace_invalid
    )


def _types(reader: _Reader) -> dict[str, str]:
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


def _schema(reader: _Reader, types: Mapping[str, str], record: str) -> dict[str, Any]:
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


def _record_name(topic: str) -> str:
    """Return a record's name for a topic: `web-shop.clicks` is WebShopClicks."""
    name = "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", topic))
    return name if name[:1].isalpha() else f"Topic{name}"
