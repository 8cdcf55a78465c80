"""What a disk may hold at one moment: what was synced, and what was only requested. Only POSIX's promises count: bytes are on
disk once their file was synced, names once their folder was.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import pytest

from headrace.broker.log.segment import boot_id
from tests.crash.disk_operations import (
    Change,
    Evict,
    FailedSync,
    Mark,
    NameChange,
    Operation,
    Rename,
    Sync,
    SyncFolder,
    Truncate,
    Write,
    change_bytes,
    change_names,
)
from tests.crash.fates import Fate


@dataclass
class File:
    on_disk: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    dropped: list[Change] = field(default_factory=list)
    """The changes of a failed sync: not on the disk, still in the system's memory."""


@dataclass
class PossibleDisk:
    """What was synced and what was only requested, at one moment."""

    names: dict[str, int | None] = field(default_factory=dict)
    """Path to inode; a folder has none."""
    pending_names: list[NameChange] = field(default_factory=list)
    files: dict[int, File] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    """Inode to the number that the system gave it, which identifies a file."""

    def apply(self, operation: Operation) -> None:
        match operation:
            case Write(inode) | Truncate(inode):
                self.files.setdefault(inode, File()).pending.append(operation)
            case Sync(inode):
                file = self.files.setdefault(inode, File())
                for change in file.pending:
                    change_bytes(file.on_disk, change)
                file.pending.clear()
            case FailedSync(inode, takes_last):
                file = self.files.setdefault(inode, File())
                if takes_last and file.pending:
                    change_bytes(file.on_disk, file.pending.pop())
                file.dropped += file.pending
                file.pending.clear()
            case Evict(inode):
                self.files[inode].dropped.clear()
            case SyncFolder(path):
                stay = []
                for name_change in self.pending_names:
                    if _is_in(path, name_change):
                        change_names(self.names, name_change)
                    else:
                        stay.append(name_change)
                self.pending_names = stay
            case Mark():
                pass
            case _:
                self.pending_names.append(operation)

    def write_out(self, folder: Path, fate: Fate) -> dict[int, int]:
        """Write into `folder` what the disk holds when `fate` decides over what was not synced.

        Return the current number of each file and its old one: see `reopened`.
        """
        numbers = {}
        names = dict(self.names)
        for name_change in fate.names_kept(self.pending_names):
            change_names(names, name_change)
        for path in sorted(names):  # folders before what is in them
            inode = names[path]
            if any(str(above) not in names for above in PurePath(path).parents if above.name):
                continue  # it exists, but cannot be found: the name of a folder above it was lost
            if inode is None:
                (folder / path).mkdir(parents=True, exist_ok=True)
                continue
            file = self.files.setdefault(inode, File())
            content = bytearray(file.on_disk)
            kept = fate.changes_kept(file.pending, len(file.on_disk))
            for change in [*(file.dropped if fate.is_only_a_kill else []), *kept]:
                change_bytes(content, change)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
            numbers[(folder / path).stat().st_ino] = self.numbers[inode]
        return numbers


class _Status:
    """`fstat`'s result for a file, with another inode number."""

    def __init__(self, status: os.stat_result, number: int) -> None:
        self._status = status
        self.st_ino = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._status, name)


@contextmanager
def reopened(numbers: dict[int, int], *, after_power_cut: bool) -> Iterator[None]:
    """Let the files that `write_out` made pass for the originals; the system has restarted if the power was cut.

    Syncs do nothing inside: no power cut follows.
    """
    fstat = os.fstat

    def status_of(fd: int) -> Any:
        status = fstat(fd)
        return _Status(status, numbers[status.st_ino]) if status.st_ino in numbers else status

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fstat", status_of)
        patch.setattr(os, "fdatasync", lambda fd: None)
        patch.setattr(os, "fsync", lambda fd: None)
        if after_power_cut:
            patch.setattr(boot_id, "current", lambda: b"another boot, 16")
        yield


def _is_in(folder: str, change: NameChange) -> bool:
    paths = (change.path, change.new_path) if isinstance(change, Rename) else (change.path,)
    return any(os.path.dirname(path) == folder for path in paths)
