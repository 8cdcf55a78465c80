"""A file system that remembers what was asked of it, so that the power can be cut at any moment afterwards.

While a `RecordedDisk` is entered, every change below its root that goes through `os` or `open` is done for real and written
down: creations, writes, truncations, renames, removals. Syncs are written down only. `after(count)` then says what a disk may
hold when the power goes after so many of them. The promises are POSIX's and no more: bytes are on disk once their file was
synced, names once their folder was; anything else may be there, in part, in any order, or not at all.

Whether anything slipped past is told by `is_complete`: the operations replayed must give the folder as it is.
"""

import builtins
import errno
import io
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any, NamedTuple

import pytest

from headrace.broker.log import boot


class Create(NamedTuple):
    path: str
    inode: int


class MakeFolder(NamedTuple):
    path: str


class Write(NamedTuple):
    inode: int
    position: int
    data: bytes


class Truncate(NamedTuple):
    inode: int
    size: int


class Sync(NamedTuple):
    inode: int


class FailedSync(NamedTuple):
    """The disk refused what was to be written, all of it or all but the last. The system has said so and forgets: it tells nobody
    again.
    """

    inode: int
    takes_last: bool = False


class Evict(NamedTuple):
    """The system needed the room, and let go of what it takes for written: who reads sees what is on the disk."""

    inode: int


class SyncFolder(NamedTuple):
    path: str


class Rename(NamedTuple):
    path: str
    new_path: str


class Remove(NamedTuple):
    path: str


class Mark(NamedTuple):
    """Something the test wants to know about this moment."""

    fact: Any


Operation = Create | MakeFolder | Write | Truncate | Sync | FailedSync | Evict | SyncFolder | Rename | Remove | Mark
_Change = Write | Truncate
_NameChange = Create | MakeFolder | Rename | Remove


@dataclass
class _File:
    on_disk: bytearray = field(default_factory=bytearray)
    pending: list[_Change] = field(default_factory=list)
    dropped: list[_Change] = field(default_factory=list)
    """What a failed sync was about: on no disk, in the system's memory still."""


@dataclass
class PossibleDisk:
    """What was synced, and what was only asked for, at one moment."""

    names: dict[str, int | None] = field(default_factory=dict)
    """Path to inode; a folder has none."""
    pending_names: list[_NameChange] = field(default_factory=list)
    files: dict[int, _File] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    """Inode to the number that the system gave it, by which a file is known again."""

    def apply(self, operation: Operation) -> None:
        match operation:
            case Write(inode) | Truncate(inode):
                self.files.setdefault(inode, _File()).pending.append(operation)
            case Sync(inode):
                file = self.files.setdefault(inode, _File())
                for change in file.pending:
                    _change(file.on_disk, change)
                file.pending.clear()
            case FailedSync(inode, takes_last):
                file = self.files.setdefault(inode, _File())
                if takes_last and file.pending:
                    _change(file.on_disk, file.pending.pop())
                file.dropped += file.pending
                file.pending.clear()
            case Evict(inode):
                self.files[inode].dropped.clear()
            case SyncFolder(path):
                stay = []
                for name_change in self.pending_names:
                    if _is_in(path, name_change):
                        _rename(self.names, name_change)
                    else:
                        stay.append(name_change)
                self.pending_names = stay
            case Mark():
                pass
            case _:
                self.pending_names.append(operation)

    def write_out(self, folder: Path, fate: "Fate") -> dict[int, int]:
        """Put into `folder` what the disk holds when `fate` decides over what was not synced.

        Return the number of each file now and what it was: see `reopened`.
        """
        numbers = {}
        names = dict(self.names)
        for name_change in fate.names_kept(self.pending_names):
            _rename(names, name_change)
        for path in sorted(names):  # folders before what is in them
            inode = names[path]
            if any(str(above) not in names for above in PurePath(path).parents if above.name):
                continue  # there, and nobody finds it: the name of a folder above it was lost
            if inode is None:
                (folder / path).mkdir(parents=True, exist_ok=True)
                continue
            file = self.files.setdefault(inode, _File())
            content = bytearray(file.on_disk)
            kept = fate.changes_kept(file.pending, len(file.on_disk))
            for change in [*(file.dropped if fate.is_only_a_kill else []), *kept]:
                _change(content, change)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
            numbers[(folder / path).stat().st_ino] = self.numbers[inode]
        return numbers


class _Status:
    """What `fstat` says of a file, but for its number."""

    def __init__(self, status: os.stat_result, number: int) -> None:
        self._status = status
        self.st_ino = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._status, name)


@contextmanager
def reopened(numbers: dict[int, int], *, after_power_cut: bool) -> Iterator[None]:
    """Let the files that `write_out` made pass for those they stand for; the system has started anew if the power was cut.

    Nothing waits for the disk in here: nobody cuts the power of what follows."""
    fstat = os.fstat

    def status_of(fd: int) -> Any:
        status = fstat(fd)
        return _Status(status, numbers[status.st_ino]) if status.st_ino in numbers else status

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fstat", status_of)
        patch.setattr(os, "fdatasync", lambda fd: None)
        patch.setattr(os, "fsync", lambda fd: None)
        if after_power_cut:
            patch.setattr(boot, "current", lambda: b"another boot, 16")
        yield


def _is_in(folder: str, change: _NameChange) -> bool:
    paths = (change.path, change.new_path) if isinstance(change, Rename) else (change.path,)
    return any(os.path.dirname(path) == folder for path in paths)


def _rename(names: dict[str, int | None], change: _NameChange) -> None:
    match change:
        case Create(path, inode):
            names[path] = inode
        case MakeFolder(path):
            names[path] = None
        case Rename(path, new_path):
            for name in [name for name in names if name == path or name.startswith(f"{path}/")]:
                names[new_path + name[len(path) :]] = names.pop(name)
        case Remove(path):
            names.pop(path, None)


def _change(content: bytearray, change: _Change) -> None:
    match change:
        case Truncate(_, size):
            del content[size:]
            content.extend(bytes(size - len(content)))
        case Write(_, position, data):
            content.extend(bytes(max(0, position + len(data) - len(content))))
            content[position : position + len(data)] = data


class Fate:
    """What becomes of changes that nobody synced: all are lost. Others below. Of each file so many bytes are on disk."""

    is_only_a_kill = False

    def names_kept(self, pending: list[_NameChange]) -> list[_NameChange]:
        return []

    def changes_kept(self, pending: list[_Change], on_disk_bytes: int) -> list[_Change]:
        return []

    def __str__(self) -> str:
        return "all lost"


class AllKept(Fate):
    """As after `kill -9`."""

    is_only_a_kill = True

    def names_kept(self, pending: list[_NameChange]) -> list[_NameChange]:
        return pending

    def changes_kept(self, pending: list[_Change], on_disk_bytes: int) -> list[_Change]:
        return pending

    def __str__(self) -> str:
        return "all kept"


class RemovalsKept(Fate):
    """What was taken away is gone, what was to come in its place did not come."""

    def names_kept(self, pending: list[_NameChange]) -> list[_NameChange]:
        return [change for change in pending if isinstance(change, Rename | Remove)]

    def __str__(self) -> str:
        return "removals kept"


class LastKept(Fate):
    """Of each file what came last is there, and nothing of what came before it: its end looks well, and its middle is a hole."""

    def names_kept(self, pending: list[_NameChange]) -> list[_NameChange]:
        return pending

    def changes_kept(self, pending: list[_Change], on_disk_bytes: int) -> list[_Change]:
        return pending[-1:]

    def __str__(self) -> str:
        return "last kept"


class AnyKept(Fate):
    """Some are there, some are not, some in part, zeros where the length came and the bytes did not. What was to be written over
    bytes that are on disk came, or they are as they were: no disk writes zeros that nobody gave it.

    Names: in their order up to some point, as a journal keeps them; where `in_any_order`, any of them."""

    def __init__(self, seed: object, *, in_any_order: bool = False) -> None:
        self._seed = seed
        self._chance = random.Random(str(seed))
        self._in_any_order = in_any_order

    def names_kept(self, pending: list[_NameChange]) -> list[_NameChange]:
        if not self._in_any_order:
            return pending[: self._chance.randint(0, len(pending))]
        return [change for change in pending if self._chance.random() < 0.5]

    def changes_kept(self, pending: list[_Change], on_disk_bytes: int) -> list[_Change]:
        chance = self._chance
        kept: list[_Change] = []
        for change in pending:
            fate = chance.choice(("whole", "whole", "lost", "zeros", "torn"))
            if fate == "whole" or (isinstance(change, Truncate) and fate != "lost"):
                kept.append(change)
            elif isinstance(change, Write) and fate == "zeros":
                begin, end = max(change.position, on_disk_bytes), change.position + len(change.data)
                kept += [Write(change.inode, begin, bytes(end - begin))] if begin < end else []
            elif isinstance(change, Write) and fate == "torn":
                kept += self._torn(change)
        return kept

    def _torn(self, write: Write) -> list[_Change]:
        """Pages, as the disk's cuts them or smaller, of which some came."""
        page = self._chance.choice((16, 64, 512, 4096))
        kept: list[_Change] = []
        at = 0
        while at < len(write.data):
            length = page - (write.position + at) % page
            if self._chance.random() < 0.5:
                kept.append(Write(write.inode, write.position + at, write.data[at : at + length]))
            at += length
        return kept

    def __str__(self) -> str:
        return f"any kept ({self._seed}{', names in any order' if self._in_any_order else ''})"


class RecordedDisk:
    """Records while entered. `root` is a folder that is there already, with whatever is in it on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.operations: list[Operation] = []
        self.failing_syncs = 0
        """So many syncs of files fail from now on."""
        self.failing_syncs_take_last = False
        """Whether the last write before such a sync comes to the disk all the same."""
        self._inodes: dict[int, int] = {}
        """Descriptor to inode: of files below the root."""
        self._folders: dict[int, str] = {}
        self._by_path: dict[str, int] = {}
        self._next_inode = 1
        self._before = PossibleDisk()
        self._patch = pytest.MonkeyPatch()
        self._real_open = builtins.open
        self._take_in()

    def mark(self, fact: Any) -> None:
        """Note a fact between the operations before and those after."""
        self.operations.append(Mark(fact))

    def after(self, count: int) -> PossibleDisk:
        """Return what a disk may hold after the first `count` operations."""
        disk = PossibleDisk(
            names=dict(self._before.names),
            numbers=self._before.numbers,
            files={inode: _File(bytearray(file.on_disk)) for inode, file in self._before.files.items()},
        )
        for operation in self.operations[:count]:
            disk.apply(operation)
        return disk

    def evict(self) -> None:
        """Let the system forget what failed syncs were about."""
        disk = self.after(len(self.operations))
        for path, inode in self._by_path.items():
            file = disk.files.get(inode, _File())
            if file.dropped:
                content = bytearray(file.on_disk)
                for change in file.pending:
                    _change(content, change)
                size = (self.root / path).stat().st_size
                with self._real_open(self.root / path, "r+b") as real:
                    real.write(content.ljust(size, b"\0"))
                self.operations.append(Evict(inode))

    def is_complete(self, scratch: Path) -> bool:
        """Return whether the operations explain the folder as it is now."""
        self.after(len(self.operations)).write_out(scratch, AllKept())
        return _contents(self.root) == _contents(scratch)

    def _take_in(self) -> None:
        for path in sorted(self.root.rglob("*")):
            name = self._name(path)
            assert name is not None
            if path.is_dir():
                self._before.names[name] = None
            else:
                self._before.names[name] = self._by_path[name] = self._new_inode(path.stat().st_ino)
                self._before.files[self._by_path[name]] = _File(bytearray(path.read_bytes()))

    def _new_inode(self, number: int) -> int:
        self._next_inode += 1
        self._before.numbers[self._next_inode] = number
        return self._next_inode

    def _name(self, path: Any) -> str | None:
        """Return the path below the root, "" for the root, None for one that is elsewhere."""
        if not isinstance(path, str | os.PathLike):
            return None
        whole, root = os.path.abspath(os.fspath(path)), os.path.abspath(self.root)
        if whole == root:
            return ""
        return whole[len(root) + 1 :] if whole.startswith(root + "/") else None

    def _below(self, path: Any, dir_fd: int | None) -> Any:
        return path if dir_fd is None else os.path.join(self.root, self._folders[dir_fd], path)

    # -- what stands in for the system's own ---------------------------------------------------------

    def __enter__(self) -> "RecordedDisk":
        real = {name: getattr(os, name) for name in dir(os)}
        patch = self._patch

        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            path = self._below(path, dir_fd)
            name = self._name(path)
            is_new = name is not None and not os.path.lexists(path)
            fd: int = real["open"](path, flags, mode)
            self._inodes.pop(fd, None)
            self._folders.pop(fd, None)
            if name is None:
                return fd
            if os.path.isdir(path):
                self._folders[fd] = name
                return fd
            if is_new:
                self._by_path[name] = self._new_inode(os.fstat(fd).st_ino)
                self.operations.append(Create(name, self._by_path[name]))
            self._inodes[fd] = self._by_path[name]
            if flags & os.O_TRUNC and not is_new:
                self.operations.append(Truncate(self._by_path[name], 0))
            return fd

        def pwrite(fd: int, data: Any, position: int) -> int:
            written: int = real["pwrite"](fd, data, position)
            self._wrote(fd, position, bytes(memoryview(data).cast("B")[:written]))
            return written

        def pwritev(fd: int, buffers: Any, position: int, *flags: int) -> int:
            joined = b"".join(bytes(memoryview(each).cast("B")) for each in buffers)
            written: int = real["pwritev"](fd, buffers, position, *flags)
            self._wrote(fd, position, joined[:written])
            return written

        def write(fd: int, data: Any) -> int:
            position = os.lseek(fd, 0, os.SEEK_CUR) if fd in self._inodes else 0
            written: int = real["write"](fd, data)
            self._wrote(fd, position, bytes(memoryview(data).cast("B")[:written]))
            return written

        def writev(fd: int, buffers: Any) -> int:
            assert fd not in self._inodes, "not recorded"
            written: int = real["writev"](fd, buffers)
            return written

        def ftruncate(fd: int, size: int) -> None:
            real["ftruncate"](fd, size)
            if fd in self._inodes:
                self.operations.append(Truncate(self._inodes[fd], size))

        def truncate(path: Any, size: int) -> None:
            real["truncate"](path, size)
            name = self._name(path)
            if name is not None:
                self.operations.append(Truncate(self._by_path[name], size))

        def sync(fd: int) -> None:
            # Not done for real: it would only take time.
            if fd in self._inodes and self.failing_syncs:
                self.failing_syncs -= 1
                self.operations.append(FailedSync(self._inodes[fd], self.failing_syncs_take_last))
                raise OSError(errno.EIO, "Input/output error")
            if fd in self._inodes:
                self.operations.append(Sync(self._inodes[fd]))
            elif fd in self._folders:
                self.operations.append(SyncFolder(self._folders[fd]))

        def rename(path: Any, new_path: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
            path, new_path = self._below(path, src_dir_fd), self._below(new_path, dst_dir_fd)
            real["rename"](path, new_path)
            name, new_name = self._name(path), self._name(new_path)
            if name is not None and new_name is not None:
                self.operations.append(Rename(name, new_name))
                for known in [known for known in self._by_path if known == name or known.startswith(f"{name}/")]:
                    self._by_path[new_name + known[len(name) :]] = self._by_path.pop(known)

        def remove(kind: str) -> Callable[..., None]:
            def removed(path: Any, *, dir_fd: int | None = None) -> None:
                real[kind](path, dir_fd=dir_fd)
                name = self._name(path)
                if name is not None:
                    assert dir_fd is None, "not recorded"
                    self.operations.append(Remove(name))
                    self._by_path.pop(name, None)

            return removed

        def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            real["mkdir"](path, mode, dir_fd=dir_fd)
            name = self._name(path)
            if name is not None:
                self.operations.append(MakeFolder(name))

        def posix_fallocate(fd: int, offset: int, length: int) -> None:
            assert fd not in self._inodes, "not recorded"
            real["posix_fallocate"](fd, offset, length)

        stand_ins = {"open": opened, "pwrite": pwrite, "pwritev": pwritev, "write": write, "writev": writev}
        stand_ins |= {"ftruncate": ftruncate, "truncate": truncate, "fsync": sync, "fdatasync": sync, "mkdir": mkdir}
        stand_ins |= {"rename": rename, "replace": rename, "posix_fallocate": posix_fallocate}
        stand_ins |= {kind: remove(kind) for kind in ("unlink", "remove", "rmdir")}
        for name, stand_in in stand_ins.items():
            patch.setattr(os, name, stand_in)
        real_open = builtins.open

        def open_file(
            file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, *more: Any, **named: Any
        ) -> Any:
            if self._name(file) is None or not set(mode) & set("wax+"):
                return real_open(file, mode, buffering, encoding, *more, **named)
            flags = {"w": os.O_TRUNC | os.O_CREAT, "x": os.O_EXCL | os.O_CREAT, "a": os.O_APPEND | os.O_CREAT, "r": 0}[mode[0]]
            fd = opened(file, flags | (os.O_RDWR if "+" in mode else os.O_WRONLY) | os.O_CLOEXEC, 0o666)
            assert "+" not in mode, "not recorded"
            raw = io.BufferedWriter(_Sink(fd))
            return raw if "b" in mode else io.TextIOWrapper(raw, encoding or "utf-8")

        patch.setattr(builtins, "open", open_file)
        patch.setattr(io, "open", open_file)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._patch.undo()

    def _wrote(self, fd: int, position: int, data: bytes) -> None:
        inode = self._inodes.get(fd)
        if inode is not None:
            self.operations.append(Write(inode, position, data))


class _Sink(io.RawIOBase):
    """A file opened by name for writing, its writes going through `os.write`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: Any) -> int:
        return os.write(self._fd, data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._fd)


def _contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes().rstrip(b"\0") for path in folder.rglob("*")
    }
