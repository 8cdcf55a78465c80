"""The `[[directory]]` sections of agent.toml: from the file's words to a dataclass, every fault named at once. Pure."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..section_reader import SectionReader

READY = ("quiet", "renamed")
WHEN_DONE = ("keep", "move", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySettings:
    """One section. Times in ms, sizes in bytes."""

    name: str
    """Unique in its agent; keep it, the agent's positions go by it."""
    path: str
    """An absolute folder; the files directly in it are taken."""
    topic: str
    application: str
    patterns: tuple[str, ...] = ("*",)
    """Names to take."""
    exclude: tuple[str, ...] = (".*", "*.tmp", "*.part", "*~")
    """Names of files that are still being written, or are no messages."""
    ready: str = "quiet"
    """`quiet`: a file is whole when it did not change for `quiet_ms`. `renamed`: it is whole as soon as its name is one that
    is taken: its writer writes under one that is excluded, and renames it."""
    quiet_ms: int = 5_000
    done: str = "keep"
    """When its message is stored, a file is kept (the agent's state knows it), moved to `done_folder`, or deleted."""
    done_folder: str = ""
    most_file_bytes: int = 786_432
    """A larger file goes to quarantine with its beginning, and stays where it is. Below the topic's `max.message.bytes`."""
    most_files: int = 10_000
    """With more files in the folder, no window is sealed, and the others are not taken before some are gone."""
    lateness_ms: int = 60_000


_NUMBERS = {"quiet_ms": 0, "most_file_bytes": 1, "most_files": 1, "lateness_ms": 0}
_KNOWN = ("name", "path", "topic", "application", "patterns", "exclude", "ready", "done", "done_folder", *_NUMBERS)


def directories_from(tables: Sequence[Mapping[str, Any]], faults: list[str]) -> list[DirectorySettings]:
    """Return the sections, and append every fault of all of them, with what to do."""
    sections = [found for number, words in enumerate(tables, 1) if (found := _section(words, number, faults)) is not None]
    for what in ("name", "path"):
        given = [getattr(section, what) for section in sections]
        for one in sorted({one for one in given if given.count(one) > 1}):
            faults.append(f"[[directory]] {one!r}: two sections have this {what}: give each its own")
    return sections


def _section(words: Mapping[str, Any], number: int, faults: list[str]) -> DirectorySettings | None:
    reader = SectionReader(words, f"[[directory]] {words.get('name', number)!r}")
    topic = reader.topic()
    path = _folder(reader, "path", needed=True)
    ready = reader.choice("ready", READY, "quiet")
    done = reader.choice("done", WHEN_DONE, "keep")
    done_folder = _folder(reader, "done_folder", needed=done == "move")
    if done_folder and done != "move":
        reader.fault("done_folder", 'it is used only with done = "move"')
    if done_folder and done_folder == path:
        reader.fault("done_folder", "it is the folder that is read: give another one")
    values: dict[str, Any] = reader.numbers(_NUMBERS)
    values |= {name: reader.texts(name) for name in ("patterns", "exclude") if name in words}
    name = reader.name_or(topic)
    application = reader.application_or(topic)
    reader.refuse_others(_KNOWN)
    faults += reader.faults
    if reader.faults:
        return None
    return DirectorySettings(
        name=name,
        path=path,
        topic=topic,
        application=application,
        ready=ready or "quiet",
        done=done or "keep",
        done_folder=done_folder,
        **values,
    )


def _folder(reader: SectionReader, name: str, *, needed: bool) -> str:
    path = reader.text(name, needed=needed)
    if path and not os.path.isabs(path):
        reader.fault(name, f"{path!r} is not absolute: begin it with /")
    return os.path.normpath(path) if path else ""
