"""The `[[tail]]` sections of agent.toml: from the file's words to a dataclass, every fault named at once.

Pure, but that it reads the schema file that a section names.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...wire.topic_name import fault_of
from ..parsers.from_settings import PARSER_WORDS, PARSERS, parser_from
from ..parsers.parser import LineParser
from ..section_reader import SectionReader
from .multiline import Multiline


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
    """Or `end`: what is in the files when the section is read for the first time is left out."""
    copytruncate: bool = False
    """Rotation copies a file and truncates it. What was not read yet is looked for in the copy, and a copy is not read twice."""
    multiline: Multiline | None = None
    most_line_bytes: int = 64 * 1024
    """A longer line goes to quarantine, with its first bytes up to this limit."""
    most_files: int = 20_000
    most_open_files: int = 256
    lateness_ms: int = 60_000
    """Lines are at most so much older than the time they are written at."""
    rest_wait_ms: int = 5_000
    """What is behind the last newline of a file that was rotated away is a line when the file did not grow for this long."""
    gone_wait_ms: int = 10_000
    """So long is a deleted file expected to turn up compressed."""


_NUMBERS = {
    "most_line_bytes": 16, "most_files": 1, "most_open_files": 1, "lateness_ms": 0, "rest_wait_ms": 0, "gone_wait_ms": 0,
}  # fmt: skip
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
    reader = SectionReader(words, f"[[tail]] {words.get('name', number)!r}")
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
        if word not in _EVERY and (kind is None or word not in PARSER_WORDS[kind]):
            other = next((one for one in PARSERS if word in PARSER_WORDS[one]), None)
            reader.fault(word, f"there is no such setting{'' if other is None else f' with this parser, only with {other!r}'}")
    parser = None if kind is None else parser_from(kind, reader, topic)
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


def _multiline(reader: SectionReader) -> Multiline | None:
    words = reader.words.get("multiline")
    if words is None:
        return None
    if not isinstance(words, Mapping):
        reader.fault("multiline", "write a table with start, most_lines, most_bytes, timeout_ms")
        return None
    inner = SectionReader(words, f"{reader.where}: multiline")
    for word in words:
        if word not in _MULTILINE:
            inner.fault(word, f"there is no such setting; known are {', '.join(_MULTILINE)}")
    start = inner.text("start", needed=True)
    pattern = inner.tried("start", lambda: re.compile(start.encode()))
    numbers = {name: inner.number(name, 1) for name in _MULTILINE[1:] if name in words}
    reader.faults += inner.faults
    return None if inner.faults else Multiline(start=pattern, **numbers)
