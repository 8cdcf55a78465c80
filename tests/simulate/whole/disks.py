"""The brokers' data folders: one recorded disk for all, so that the power of one broker can be cut.

A process may also die between two operations on its folder: the one that was to come is not carried out.
"""

import os
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from headrace.broker.log.segment import boot_id, open_files
from tests.crash.disk_operations import NameChange, Rename, Sync, SyncFolder
from tests.crash.fates import AnyKept
from tests.crash.possible_disk import PossibleDisk
from tests.crash.recorded_disk import RecordedDisk

from .scheduler import Killed, Simulation

CHANGES = ("pwrite", "pwritev", "write", "ftruncate", "truncate", "fsync", "fdatasync", "rename", "replace", "unlink", "mkdir")
OPEN_FILES = 10_000
HEADER_BYTES, EPOCH_AT, CRC_BEGINS = 61, 12, 21
"""Of a batch: the length of its header, where its leader epoch is, and where what the CRC covers begins."""


class Disks:
    """Folders below `root`. `folders` has the present one of each broker."""

    def __init__(self, sim: Simulation, root: Path, disk: RecordedDisk) -> None:
        self.sim, self.root, self.disk = sim, root, disk
        self.folders: dict[str, Path] = {}
        self.dies_after: dict[str, int] = {}
        """By process: how many more changes of files it makes."""
        self._cuts = 0

    def folder(self, name: str) -> Path:
        """Return the broker's folder. A new one is on disk."""
        if name not in self.folders:
            self.folders[name] = self._new_folder(name)
        return self.folders[name]

    def _new_folder(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir()
        self.disk.operations.append(SyncFolder(""))
        return folder

    def cut_power(self, name: str) -> None:
        """Give the broker a folder with what a disk may hold now. Its process is dead already."""
        inside = f"{self.folder(name).name}/"
        whole = self.disk.after(len(self.disk.operations))
        left = PossibleDisk(
            names={path[len(inside) :]: inode for path, inode in whole.names.items() if path.startswith(inside)},
            pending_names=[one for each in whole.pending_names if (one := _below(each, inside)) is not None],
            files=whole.files,
            numbers=whole.numbers,
        )
        self._cuts += 1
        folder = self.folders[name] = self._new_folder(f"{name}.{self._cuts}")
        left.write_out(folder, AnyKept(random.Random(f"{self.sim.seed} {self._cuts}").random(), in_any_order=False))
        operations, inside = self.disk.operations, f"{folder.name}/"
        operations += [Sync(inode) for path, inode in self.disk._by_path.items() if path.startswith(inside)]
        operations += [
            SyncFolder(each.relative_to(self.root).as_posix()) for each in (folder, *sorted(folder.rglob("*"))) if each.is_dir()
        ]

    def flip_a_bit(self, name: str, log: str, size: int, *, is_covered: bool) -> str:
        """Change a bit in a closed segment: under a batch's CRC, or else in its leader epoch. Return where."""
        files = sorted((self.folder(name) / log).glob("*.log"))[:-1]
        if not files:
            return "nothing"
        path = files[size % len(files)]
        data, at, batches = path.read_bytes(), 0, list[tuple[int, int]]()
        while at + HEADER_BYTES <= len(data) and (length := int.from_bytes(data[at + 8 : at + 12], "big")) > 0:
            batches.append((at, at + 12 + length))
            at += 12 + length
        if not batches:
            return "nothing"
        begin, end = batches[size * 7 % len(batches)]
        position = begin + (CRC_BEGINS + size * 31 % (end - begin - CRC_BEGINS) if is_covered else EPOCH_AT + size % 4)
        fd = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(fd, bytes([data[position] ^ 1 << size % 8]), position)
            os.fsync(fd)
        finally:
            os.close(fd)
        return f"{log}/{path.name} at {position}"

    def before_change(self) -> None:
        """Called before each change of a file."""
        thread = self.sim.current
        process = None if thread is None else thread.process
        if process is None:
            return
        process.check()
        left = self.dies_after.get(process.name)
        if left is not None:
            if left > 0:
                self.dies_after[process.name] = left - 1
                return
            del self.dies_after[process.name]
            self.sim.note("dies between two changes of its folder:", process.name)
            self.sim.kill(process)
            raise Killed


@contextmanager
def disks_of(sim: Simulation, root: Path) -> Iterator[Disks]:
    """Give disks below `root`, which is removed in the end. The system's identity is that of the process that runs."""
    root.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch, RecordedDisk(root) as recorded:
        disks = Disks(sim, root, recorded)

        def guarded(real: Any) -> Any:
            def change(*words: Any, **named: Any) -> Any:
                disks.before_change()
                return real(*words, **named)

            return change

        for name in CHANGES:
            patch.setattr(os, name, guarded(getattr(os, name)))

        def real_time(*_: object) -> NoReturn:
            sim.failure = sim.failure or AssertionError("a simulated broker has asked for the real time")
            raise sim.failure

        for name in ("sleep", "monotonic", "monotonic_ns"):
            patch.setattr(time, name, real_time)
        patch.setattr(boot_id, "current", lambda: b"no boot".ljust(16) if sim.current is None else sim.current.process.boot)
        patch.setattr(open_files, "shared", open_files.OpenFiles(OPEN_FILES))
        try:
            yield disks
        finally:
            patch.undo()
            recorded._patch.undo()
            shutil.rmtree(root, ignore_errors=True)


def _below(change: NameChange, inside: str) -> NameChange | None:
    """Return the change as it is called within a folder, None where it is elsewhere."""
    if not change.path.startswith(inside):
        return None
    if isinstance(change, Rename):
        return Rename(change.path[len(inside) :], change.new_path[len(inside) :])
    return change._replace(path=change.path[len(inside) :])
