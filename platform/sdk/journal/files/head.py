"""The head of a journal, `journal.json`: whose it is, and what an agent must know to ship it. Values and JSON, no clock."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import JournalDamaged, JournalTooNew
from .layout import VERSION

HEAD_FILE = "journal.json"
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterProcess:
    """The process that writes a journal."""

    process_id: int
    start_ticks: int
    """Its start in clock ticks since the boot; with the id it names one process of one boot."""
    pid_namespace: str
    """Ids are compared only within one: another container has other ids."""
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHead:
    """What is in `journal.json`. It is on disk before the first segment is made, and never changes."""

    journal_id: str
    """32 hexadecimal digits."""
    topic: str
    schema: str
    """The writer's Avro schema, JSON text."""
    application: str
    instance: str
    server_name: str
    epoch: int
    """The journal's creation, in ms since the epoch. (instance, epoch) names the run."""
    lateness_ms: int | None
    only_between_ms: tuple[int, int] | None
    segment_bytes: int
    is_durable: bool
    """Each event was on the disk before it was taken."""
    writer: WriterProcess
    version: int = VERSION

    @property
    def id_bytes(self) -> bytes:
        return bytes.fromhex(self.journal_id)

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, text: bytes, where: str) -> "JournalHead":
        """Return the head. Names that this version does not know are ignored. Raises `JournalDamaged`, `JournalTooNew`."""
        try:
            words = json.loads(text)
            version = words["version"]
            if not isinstance(version, int) or version < 1:
                raise ValueError(f"version is {version!r}")
            if version > VERSION:
                raise JournalTooNew(where, version, VERSION)
            return _READERS[version](words)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise JournalDamaged(f"{where} is not a head of a journal ({type(error).__name__}: {error})") from error

    @classmethod
    def read(cls, folder: Path) -> "JournalHead":
        """Return the head of the journal in `folder`. Raises `JournalDamaged` (no file, too), `JournalTooNew`."""
        path = folder / HEAD_FILE
        try:
            return cls.from_json(path.read_bytes(), str(path))
        except OSError as error:
            raise JournalDamaged(
                f"{path} cannot be read ({error.strerror}): {folder} is not a journal, or one that was removed"
            ) from None


def _read_version_1(words: dict[str, Any]) -> JournalHead:
    plain = {one.name: words[one.name] for one in fields(JournalHead) if one.name not in ("writer", "only_between_ms")}
    writer = WriterProcess(**{one.name: words["writer"][one.name] for one in fields(WriterProcess)})
    head = JournalHead(**plain, writer=writer, only_between_ms=_pair(words["only_between_ms"]))
    for name in ("journal_id", "topic", "schema", "application", "instance", "server_name"):
        if not isinstance(getattr(head, name), str):
            raise TypeError(f"{name} is {getattr(head, name)!r}, no text")
    for name in ("epoch", "segment_bytes"):
        if not isinstance(getattr(head, name), int):
            raise TypeError(f"{name} is {getattr(head, name)!r}, no number")
    if len(head.id_bytes) != 16:
        raise ValueError(f"journal_id is {head.journal_id!r}, not 32 hexadecimal digits")
    return head


_READERS = {1: _read_version_1}
"""How heads of each version are read. A version stays here as long as hosts may have journals of it."""


def _pair(words: Any) -> tuple[int, int] | None:
    if words is None:
        return None
    first, end = words
    return int(first), int(end)


def folder_of(root: Path, application: str, instance: str, epoch: int) -> Path:
    """Return where a journal stands: `<root>/<application>/<instance>.<epoch>`, with every odd character as %XX."""
    return root / file_name(application) / f"{file_name(instance)}.{epoch}"


def file_name(text: str) -> str:
    """Return the text as one name in a folder: never empty, hidden or longer than a file system takes."""
    name = quote(text, safe="", errors="backslashreplace")[-_LONGEST_NAME:]
    return "%2E" + name[1:] if name.startswith(".") else name or "%"
