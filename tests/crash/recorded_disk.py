"""A file system that records every operation, so that the power can be cut at any of them afterwards.

While a `RecordedDisk` is entered, every change below its root through `os` or `open` is carried out and recorded: creations,
writes, truncations, renames, removals. Syncs are only recorded. `after(count)` then returns what a disk may hold after so many
operations (`possible_disk`), and a fate decides over what was not synced (`fates`).

`is_complete` checks that no change was missed: the replayed operations must give the folder as it is.
"""

import builtins
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from tests.crash.disk_operations import (
    Create,
    Evict,
    FailedSync,
    MakeFolder,
    Mark,
    Operation,
    Remove,
    Rename,
    Sync,
    SyncFolder,
    Truncate,
    Write,
    change_bytes,
)
from tests.crash.fates import AllKept
from tests.crash.possible_disk import File, PossibleDisk

_FSYNC = os.fsync


class RecordedDisk:
    """Records while entered. `root` is an existing folder; its content counts as on disk. Several may be entered, one in
    the other, and are left in the reverse order.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.operations: list[Operation] = []
        self.failing_syncs = 0
        """This many of the next syncs of files fail."""
        self.failing_syncs_take_last = False
        """Whether the last write before a failing sync still reaches the disk."""
        self._inodes: dict[int, int] = {}
        """Descriptor to inode, for files below the root."""
        self._folders: dict[int, str] = {}
        self._by_path: dict[str, int] = {}
        self._next_inode = 1
        self._is_inner = False
        self._before = PossibleDisk()
        self._patch = pytest.MonkeyPatch()
        self._real_open = builtins.open
        self._take_in()

    def mark(self, fact: Any) -> None:
        """Record a fact between the operations before and those after."""
        self.operations.append(Mark(fact))

    def after(self, count: int) -> PossibleDisk:
        """Return what a disk may hold after the first `count` operations."""
        disk = PossibleDisk(
            names=dict(self._before.names),
            numbers=self._before.numbers,
            files={inode: File(bytearray(file.on_disk)) for inode, file in self._before.files.items()},
        )
        for operation in self.operations[:count]:
            disk.apply(operation)
        return disk

    def evict(self) -> None:
        """Make the system drop the pages of failed syncs."""
        disk = self.after(len(self.operations))
        for path, inode in self._by_path.items():
            file = disk.files.get(inode, File())
            if file.dropped:
                content = bytearray(file.on_disk)
                for change in file.pending:
                    change_bytes(content, change)
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
                self._before.files[self._by_path[name]] = File(bytearray(path.read_bytes()))

    def _new_inode(self, number: int) -> int:
        self._next_inode += 1
        self._before.numbers[self._next_inode] = number
        return self._next_inode

    def _name(self, path: Any) -> str | None:
        """Return the path below the root, "" for the root, None for a path elsewhere."""
        if not isinstance(path, str | os.PathLike):
            return None
        whole, root = os.path.abspath(os.fspath(path)), os.path.abspath(self.root)
        if whole == root:
            return ""
        return whole[len(root) + 1 :] if whole.startswith(root + "/") else None

    def _is_anothers(self, dir_fd: int | None) -> bool:
        """Return whether this is a folder of a recorded disk that was entered before this one."""
        return self._is_inner and dir_fd is not None and dir_fd not in self._folders

    def _below(self, path: Any, dir_fd: int | None) -> Any:
        return path if dir_fd is None else os.path.join(self.root, self._folders[dir_fd], path)

    # -- replacements of the system's own functions ---------------------------------------------------------

    def __enter__(self) -> "RecordedDisk":
        real = {name: getattr(os, name) for name in dir(os)}
        self._is_inner = real["fsync"] is not _FSYNC
        patch = self._patch

        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if self._is_anothers(dir_fd):
                other: int = real["open"](path, flags, mode, dir_fd=dir_fd)
                self._inodes.pop(other, None)
                self._folders.pop(other, None)
                return other
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
            # Not carried out: it would only take time. But it may be for another recorded disk, entered before.
            if fd in self._inodes and self.failing_syncs:
                self.failing_syncs -= 1
                self.operations.append(FailedSync(self._inodes[fd], self.failing_syncs_take_last))
                raise OSError(errno.EIO, "Input/output error")
            if fd in self._inodes:
                self.operations.append(Sync(self._inodes[fd]))
            elif fd in self._folders:
                self.operations.append(SyncFolder(self._folders[fd]))
            elif self._is_inner:
                real["fsync"](fd)

        def rename(path: Any, new_path: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
            if self._is_anothers(src_dir_fd):
                real["rename"](path, new_path, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
                return
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
    """A file opened by name for writing; it writes through `os.write`."""

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
