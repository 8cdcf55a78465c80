"""A real file system (ext4) on a block device that records every write and flush: the power of a disk under a running broker can
then be cut at any of them.

A loop device on the one file of `recorder.py`. Needs root, /dev/fuse and loop devices.
"""

import mmap
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pytest

from tests.power import recorder
from tests.support.processes import Process, eventually

MIB = 32
SECTOR_BYTES = 4096
"""The unit that a current disk writes whole or not at all; ext4 itself does not survive less."""
_MAKE_EXT4 = ("mkfs.ext4", "-q", "-b", str(SECTOR_BYTES), "-E", "lazy_itable_init=0,lazy_journal_init=0", "-J", "size=4")


class Marked(NamedTuple):
    """A fact that was known when this many operations had reached the disk."""

    count: int
    fact: Any


class BlockDisk:
    """Mounted at `mounted` while entered; afterwards `operations` and `marks` tell what happened."""

    def __init__(self, folder: Path, mounted: Path, image: Path | None = None) -> None:
        """`folder` is for its files. With `image` it begins with that content, else blank."""
        self.mounted = mounted
        self.beginning = folder / "beginning"
        """What it held before the first operation."""
        self.marks: list[Marked] = []
        self._fuse, self._file, self._journal, self._count = (folder / name for name in ("fuse", "file", "journal", "count"))
        for path in (self._fuse, mounted):
            path.mkdir(parents=True)
        if image is None:
            with self.beginning.open("wb") as file:
                file.truncate(MIB << 20)
            _run(*_MAKE_EXT4, str(self.beginning))
        else:
            shutil.copyfile(image, self.beginning)
        shutil.copyfile(self.beginning, self._file)
        self._journal.touch()
        self._count.write_bytes(bytes(recorder.COUNT.size))
        with self._count.open("rb") as counted:
            self._counted = mmap.mmap(counted.fileno(), recorder.COUNT.size, prot=mmap.PROT_READ)
        words = [str(path) for path in (self._fuse, self._file, self._journal, self._count)]
        self._recorder = Process([sys.executable, "-m", "tests.power.recorder", *words], folder / "recorder.log")
        self._lock = threading.Lock()

    def __enter__(self) -> "BlockDisk":
        self._recorder.start()
        try:
            eventually(self._is_served, what="the recorded file")
            _mount(self._fuse / recorder.NAME, self.mounted)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            refused = [path for path in (self.mounted, self._fuse) if path.is_mount() and not _is_unmounted(path)]
        finally:
            self._recorder.kill()
        assert error is not None or not refused, f"still mounted: {refused}"

    def mark(self, fact: object) -> None:
        """Record what is known now. From any thread."""
        with self._lock:
            self.marks.append(Marked(self.received, fact))

    @property
    def received(self) -> int:
        """How many operations have reached the disk."""
        return int(recorder.COUNT.unpack_from(self._counted)[0])

    def operations(self) -> Iterator[recorder.Operation]:
        """Yield all operations of the disk."""
        return recorder.operations(self._journal)

    def _is_served(self) -> bool:
        if not self._recorder.is_running():
            pytest.fail(f"This test needs root, /dev/fuse and loop devices: {self._recorder.output()}", pytrace=False)
        return (self._fuse / recorder.NAME).exists()


class PowerCuts:
    """The disk's content after cuts at one operation after another, written to `image`."""

    def __init__(self, disk: BlockDisk, image: Path) -> None:
        self.image = image
        self._operations = disk.operations()
        self._count = 0
        self._sure = bytearray(disk.beginning.read_bytes())
        """What no later cut removes."""
        self._pending: list[tuple[int, bytes]] = []

    def cut(self, count: int, chance: random.Random | None) -> None:
        """Write the image after a cut behind `count` operations; `count` never decreases between calls.

        Nothing since the last flush is there; with `chance` some of it is, in any order, torn between sectors.
        """
        while self._count < count:
            position, data = next(self._operations)
            self._count += 1
            if data is not None:
                self._pending.append((position, data))
                continue
            for begin, written in self._pending:
                self._sure[begin : begin + len(written)] = written
            self._pending.clear()
        self.image.write_bytes(self._sure)
        with self.image.open("r+b") as image:
            for position, sector in _left(self._pending, chance):
                image.seek(position)
                image.write(sector)


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    """Mount the file system in `image` at the folder `at`."""
    at.mkdir(parents=True, exist_ok=True)
    _mount(image, at)
    try:
        yield at
    finally:
        _run("umount", str(at))


def _left(pending: list[tuple[int, bytes]], chance: random.Random | None) -> Iterator[tuple[int, bytes]]:
    if chance is None:
        return
    for position, data in chance.sample(pending, len(pending)):
        fate = chance.choice(("lost", "there", "torn"))
        for at in range(0, len(data), SECTOR_BYTES):
            if fate == "there" or (fate == "torn" and chance.random() < 0.5):
                yield position + at, data[at : at + SECTOR_BYTES]


def _mount(image: Path, at: Path) -> None:
    _run("mount", "-t", "ext4", "-o", "loop", str(image), str(at))


def _is_unmounted(path: Path) -> bool:
    return subprocess.run(["umount", str(path)], capture_output=True, timeout=60).returncode == 0


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
    return done.stdout
