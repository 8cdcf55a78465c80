"""The lives of a broker's data folder, and the start number of its process: begun once at a start, before any log is opened.

`<data>/replica-lives.json` holds what the last process noted (`replication.lives.FolderNote`). It is written with the next start
number before ZooKeeper's is raised, so that a start which dies between the two does not make the folder look like an older copy.
A file that cannot be read counts as none: the folder then has new lives, and catches up before it is trusted again.
On a full disk the file is emptied, which needs no room, so that a broker starts there.
"""

import json
import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ...coordination.errors import ConnectionUnsure, CoordinationError, VersionConflict
from ...runtime.logs import get_logger
from ...runtime.whole_file import is_disk_full, replace_file
from ..log.segment import boot_id
from ..replication.lives import FolderNote, Lives, at_start

log = get_logger(__name__)

FILE = "replica-lives.json"
TRIES = 10


class StartNumbers(Protocol):
    """ZooKeeper's start numbers (`coordination.replica_states`)."""

    def start_number(self, broker_id: int) -> int: ...

    def raise_start_number(self, broker_id: int, known: int) -> int: ...


class ReplicaLives:
    """Of one process. `begin` before anything else."""

    def __init__(
        self,
        data: Path,
        broker_id: int,
        boot: Callable[[], bytes] = boot_id.current,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._data, self._broker_id, self._boot, self._new_id = data, broker_id, boot, new_id
        self._note: FolderNote | None = None
        self._is_written = False
        """Whether the note is on disk."""
        self._has_lost_memory = False

    def begin(self, numbers: StartNumbers) -> "ReplicaLives":
        """Raise the start number, and note the lives of this process durably. Raises CoordinationError, OSError."""
        before, self._has_lost_memory = _read(self._data / FILE)
        known = first = numbers.start_number(self._broker_id)
        token = self._new_id()
        for _ in range(TRIES):
            number, boot = known + 1, self._boot().hex()
            lives = at_start(before, boot_id=boot, start_number=number, known_start_number=first, token=token)
            self._has_lost_memory |= before is not None and before.lives.memory != lives.memory
            self._write(FolderNote(lives=lives, boot_id=boot, start_number=number, was_stopped_cleanly=False))
            try:
                numbers.raise_start_number(self._broker_id, known)
            except (VersionConflict, ConnectionUnsure):
                known = numbers.start_number(self._broker_id)
                continue
            return self
        raise CoordinationError(
            f"the start number of broker {self._broker_id} was changed {TRIES} times by others: is another process running with "
            "this broker's id? Give each broker its own id"
        )

    @property
    def start_number(self) -> int:
        return self._present.start_number

    @property
    def has_lost_memory(self) -> bool:
        """Return whether what was not flushed may be lost, because the system ended since the last process."""
        return self._has_lost_memory

    def logs_are_open(self) -> None:
        """Note durably that every log was looked at after such an end of the system. Raises OSError."""
        if self._has_lost_memory:
            self._has_lost_memory = False
            self._write(self._present)

    def of_folder(self, token: str) -> Lives:
        """Return the lives of one replica's folder."""
        lives = self._present.lives
        return Lives(memory=f"{lives.memory}.{token}", disk=f"{lives.disk}.{token}")

    def flush_failed(self) -> None:
        """Note durably that a flush has failed: at the next start no life is kept. From any thread. Raises OSError."""
        if not (self._present.has_failed_flush and self._is_written):
            self._write(replace(self._present, has_failed_flush=True))

    def closed_cleanly(self) -> None:
        """Note durably that every log was flushed and closed. Raises OSError."""
        self._write(replace(self._present, was_stopped_cleanly=True))

    @property
    def _present(self) -> FolderNote:
        assert self._note is not None, "begun at the start"
        return self._note

    def _write(self, note: FolderNote) -> None:
        self._note, self._is_written = note, False
        words = {
            "version": 1,
            "memory": note.lives.memory,
            "disk": note.lives.disk,
            "boot_id": note.boot_id,
            "start_number": note.start_number,
            "was_stopped_cleanly": note.was_stopped_cleanly,
            "has_failed_flush": note.has_failed_flush,
            "has_lost_memory": self._has_lost_memory,
        }
        try:
            replace_file(self._data / FILE, json.dumps(words).encode(), is_durable=True)
        except OSError as error:
            if not is_disk_full(error):
                raise
            self._empty(error)
        fd = os.open(self._data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        self._is_written = True

    def _empty(self, error: OSError) -> None:
        fd = os.open(self._data / FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.ftruncate(fd, 0)
            os.fsync(fd)
        finally:
            os.close(fd)
        log.warning(
            "replica_lives_not_noted", why=str(error), what_follows="after the next start the replicas here catch up again"
        )


def _read(path: Path) -> tuple[FolderNote | None, bool]:
    """Return the note, and whether the last process had found the memory lost and not looked at every log since."""
    try:
        words = json.loads(path.read_bytes())
        if words["version"] != 1:
            raise ValueError(f"version {words['version']!r}, 1 is known")
        note = FolderNote(
            lives=Lives(memory=str(words["memory"]), disk=str(words["disk"])),
            boot_id=str(words["boot_id"]),
            start_number=int(words["start_number"]),
            was_stopped_cleanly=bool(words["was_stopped_cleanly"]),
            has_failed_flush=bool(words["has_failed_flush"]),
        )
        return note, bool(words["has_lost_memory"])
    except FileNotFoundError:
        return None, False
    except (ValueError, KeyError, TypeError) as error:
        log.warning("replica_lives_unreadable", file=str(path), why=str(error), what_follows="the replicas here catch up again")
        return None, True
