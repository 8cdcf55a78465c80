"""One file of a `[[directory]]` as a source with one record.

A position is JSON: before the file `{}`, behind it the time at which it was read and the checksum of what was read. So the file
that is read again after a crash gives the same record, or none where it is not the same file any more.
"""

import hashlib
import json
import os
import stat as stats
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ...audit.model.windows import window_start_ms
from ...runtime.clock import Clock
from ...sdk.encoding.event_encoder import EventEncoder
from ...wire.quarantine_record import PAYLOAD_LIMIT_BYTES, FileOrigin, QuarantineRecord
from ..errors import SourceUnreadable
from ..source import AuditRun, Chunk, Lag, Position, SourceRecord
from .file_schema import dropped_file, shown
from .settings import DirectorySettings

BEGIN = Position("{}")
TOO_LARGE = "file_too_large"
_STEP_BYTES = 1 << 20


class FileIdentity(NamedTuple):
    """What tells a file from every other that has, or had, its name."""

    device: int
    inode: int
    mtime_ns: int
    size: int

    @classmethod
    def of(cls, stat: os.stat_result) -> "FileIdentity":
        return cls(stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """What the files of one section have in common."""

    settings: DirectorySettings
    host: str
    run: AuditRun
    encoder: EventEncoder
    clock: Clock


class Owner(Protocol):
    """The group of a file."""

    def note(self, event: str) -> None: ...

    def forget(self, name: str) -> None: ...


class DroppedFile:
    """One file, whole when it is found."""

    def __init__(self, directory: Directory, file_name: str, identity: FileIdentity, owner: Owner) -> None:
        self._directory = directory
        self._file_name = file_name
        self.identity = identity
        self._owner = owner
        self.name = source_name(directory.settings.name, file_name, identity)
        self.topic = directory.settings.topic
        self.schema = directory.encoder.text
        self.run = directory.run
        self.start = BEGIN
        self.is_gone = False
        """It is not in the folder any more, under this name."""
        self._found_ms = directory.clock.now_ms()

    @property
    def path(self) -> str:
        return os.path.join(self._directory.settings.path, self._file_name)

    def read(self, position: Position, most_bytes: int) -> Chunk | None:
        if position != BEGIN or self.is_gone:
            return None
        content, digest = self._content()
        at_ms = self._directory.clock.now_ms()
        end = Position(json.dumps({"at_ms": at_ms, "sha256": digest}))
        if content is None:
            self._owner.note("files_too_large")
        return self._chunk(end, at_ms, content)

    def read_again(self, start: Position, end: Position) -> Chunk:
        words = json.loads(end)
        try:
            content, digest = self._content()
        except FileNotFoundError:
            return Chunk(end=end)
        except SourceUnreadable:
            if self._is_the_file():
                raise
            return Chunk(end=end)
        if digest != words["sha256"]:
            return Chunk(end=end)
        return self._chunk(end, words["at_ms"], content)

    def hold(self, start: Position, end: Position) -> None:
        """Nothing: the file is not ours before it is done."""

    def losses(self) -> Mapping[tuple[int, str], int]:
        return {}

    def is_ended(self, position: Position) -> bool:
        """Return whether the file will not be found again: it is gone, or was moved or deleted now. A kept file stays known."""
        return self.is_gone or (position != BEGIN and self._directory.settings.done != "keep" and not self._is_too_large)

    def lacks_tail(self, position: Position) -> bool:
        return False

    def announced(self) -> None:
        """Nothing to note."""

    def lag(self, position: Position) -> Lag:
        return Lag(0, None) if position != BEGIN or self.is_gone else Lag(self.identity.size, self._found_ms)

    def release(self, position: Position) -> None:
        """Nothing: `remove` does what is to be done."""

    def remove(self) -> None:
        """Move or delete the file, if it is still this one. Raises OSError: it is tried again."""
        settings = self._directory.settings
        if not self.is_gone and settings.done != "keep" and not self._is_too_large and self._is_the_file():
            if settings.done == "delete":
                os.unlink(self.path)
            else:
                os.rename(self.path, self._free_name(settings.done_folder))
            self._owner.note("files_moved" if settings.done == "move" else "files_deleted")
        self._owner.forget(self.name)

    def close(self) -> None:
        """Nothing is open between two calls."""

    @property
    def _is_too_large(self) -> bool:
        return self.identity.size > self._directory.settings.most_file_bytes

    def _is_the_file(self) -> bool:
        with suppress(OSError):
            return FileIdentity.of(os.lstat(self.path)) == self.identity
        return False

    def _free_name(self, folder: str) -> str:
        os.makedirs(folder, exist_ok=True)
        plain = os.path.join(folder, self._file_name)
        if not os.path.lexists(plain):
            return plain
        one = self.identity
        return os.path.join(folder, f"{self._file_name}.{one.inode:x}-{one.mtime_ns:x}")

    def _content(self) -> tuple[bytes | None, str]:
        """Return the content, None where it is too large, and its SHA-256. Raises OSError, SourceUnreadable."""
        file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(file)
            if FileIdentity.of(found) != self.identity or not stats.S_ISREG(found.st_mode):
                raise SourceUnreadable(f"{self.path} is another file now: the next look finds it")
            if self._is_too_large:
                return None, f"{self.identity}"
            pieces = []
            left = self.identity.size
            while left and (piece := os.read(file, min(left, _STEP_BYTES))):
                pieces.append(piece)
                left -= len(piece)
            if left or FileIdentity.of(os.fstat(file)) != self.identity:
                raise SourceUnreadable(f"{self.path} changes while it is read: rename files into the folder when they are whole")
        finally:
            os.close(file)
        content = b"".join(pieces)
        return content, hashlib.sha256(content).hexdigest()

    def _chunk(self, end: Position, at_ms: int, content: bytes | None) -> Chunk:
        directory = self._directory
        if content is None:
            return Chunk(end=end, quarantined=[self._refused(at_ms)])
        event = dropped_file(
            host=directory.host,
            directory=directory.settings.path,
            name=self._file_name,
            mtime_ns=self.identity.mtime_ns,
            content=content,
        )
        body = directory.encoder.encode(event, at_ms)
        return Chunk(end=end, records=[SourceRecord(at_ms, event["id"].encode(), body)])

    def _refused(self, at_ms: int) -> QuarantineRecord:
        settings = self._directory.settings
        with open(self.path, "rb") as file:
            beginning = file.read(PAYLOAD_LIMIT_BYTES)
        return QuarantineRecord(
            topic=self.topic,
            stage="agent",
            code=TOO_LARGE,
            reason=f"it has {self.identity.size} bytes, most_file_bytes is {settings.most_file_bytes}: only its beginning is "
            "here, and the file stays in its folder",
            origin=FileOrigin(
                file=shown(self.path), line=None, offset=0, file_id=f"{self.identity.inode}-{self.identity.mtime_ns}"
            ),
            window_start_ms=window_start_ms(at_ms),
            window_from="clock",
            at_ms=at_ms,
            payload=beginning,
        )


def source_name(section: str, file_name: str, identity: FileIdentity) -> str:
    """Return the name under which the agent's state knows a file."""
    return f"directory:{section}/{shown(file_name)}#{'-'.join(f'{one:x}' for one in identity)}"
