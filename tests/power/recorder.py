"""A file system with one file, served to the kernel through /dev/fuse, that records every write and sync of it in order. With a
loop device on that file, this is what a disk receives. A process: `python -m tests.power.recorder MOUNT FILE JOURNAL COUNT`.

Implements the kernel's protocol (linux/fuse.h, 7.31) as far as one file needs it: too little to be worth a package.
"""

import errno
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from ctypes import CDLL, get_errno
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

NAME = "disk"
MOST_BYTES = 1 << 20
"""Of one write."""
ENTRY = struct.Struct("<QI")
"""Before each write in the journal: position and length. A sync has SYNC as position and no length."""
SYNC = (1 << 64) - 1
COUNT = struct.Struct("<Q")
"""The length of the journal, for processes that map the file."""


class _Call(IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42


_REQUEST = struct.Struct("<IIQQ16x")
"""length, call, number, node."""
_ANSWER = struct.Struct("<IiQ")
"""length, minus the error's number, number."""
_INIT = struct.Struct("<IIIIHHIIHHI28x")
"""major, minor, read-ahead, flags, in the background, congested, longest write, time's grain in ns, most pages, -, -."""
_ATTRIBUTES = struct.Struct("<QQQ36xIIIIIII")
"""number, size, blocks, mode, links, user, group, device, block size, -."""
_VALID, _ENTRY = struct.Struct("<QII"), struct.Struct("<QQQQII")
"""For how many seconds attributes hold; node, -, for how many seconds the name and they hold."""
_OPENED = struct.Struct("<QIi")
_TRANSFER = struct.Struct("<QQI20x")
"""-, position, length: of a read and of a write."""
_WRITTEN = struct.Struct("<II")
_STATFS = struct.Struct("<QQQQQIIII24x")
_ROOT, _FILE = 1, 2
_LONG_WRITES = 1 << 5 | 1 << 22
_UNCACHED = 1
"""A write reaches this process before it counts as done."""
_FOR_EVER_S = 3_600
_PAGE = 4_096


class Operation(NamedTuple):
    """A write; a sync where there is no `data`."""

    position: int
    data: bytes | None


def operations(journal: Path) -> Iterator[Operation]:
    """Yield what was asked of the file, in its order."""
    with journal.open("rb") as file:
        while front := file.read(ENTRY.size):
            position, length = ENTRY.unpack(front)
            yield Operation(position, None if position == SYNC else file.read(length))


class _Recorder:
    """Answers the kernel's requests."""

    def __init__(self, kernel: int, file: Path, journal: Path, count: Path) -> None:
        self._kernel = kernel
        self._file = os.open(file, os.O_RDWR)
        self._size_bytes = os.fstat(self._file).st_size
        self._journal = journal.open("ab", buffering=0)
        with count.open("r+b") as counted:
            self._counted = mmap.mmap(counted.fileno(), COUNT.size)
        self._count = 0

    def run(self) -> None:
        """Answer until it is unmounted."""
        while True:
            try:
                request = os.read(self._kernel, MOST_BYTES + _PAGE)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno == errno.ENOENT:  # requested, and cancelled
                    continue
                raise
            _, call, number, node = _REQUEST.unpack_from(request)
            answer = self._answer(call, node, memoryview(request)[_REQUEST.size :])
            if isinstance(answer, int):
                os.write(self._kernel, _ANSWER.pack(_ANSWER.size, -answer, number))
            elif answer is not None:
                os.write(self._kernel, _ANSWER.pack(_ANSWER.size + len(answer), 0, number) + answer)

    def _answer(self, call: int, node: int, body: memoryview) -> bytes | int | None:
        """Return a response, the number of an error, or None if the kernel expects no response."""
        match call:
            case _Call.INIT:
                _, _, ahead, flags = struct.unpack_from("<4I", body)
                return _INIT.pack(7, 31, ahead, flags & _LONG_WRITES, 12, 9, MOST_BYTES, 1, MOST_BYTES // _PAGE, 0, 0)
            case _Call.LOOKUP if bytes(body) == NAME.encode() + b"\0":
                return _ENTRY.pack(_FILE, 0, _FOR_EVER_S, _FOR_EVER_S, 0, 0) + self._attributes(_FILE)
            case _Call.LOOKUP:
                return errno.ENOENT
            case _Call.GETATTR:
                return _VALID.pack(_FOR_EVER_S, 0, 0) + self._attributes(node)
            case _Call.OPEN:
                return _OPENED.pack(0, _UNCACHED, 0)
            case _Call.READ:
                _, position, length = _TRANSFER.unpack_from(body)
                return os.pread(self._file, length, position)
            case _Call.WRITE:
                _, position, length = _TRANSFER.unpack_from(body)
                data = body[_TRANSFER.size : _TRANSFER.size + length]
                os.pwrite(self._file, data, position)
                self._note(ENTRY.pack(position, length) + data)
                return _WRITTEN.pack(length, 0)
            case _Call.FSYNC:
                self._note(ENTRY.pack(SYNC, 0))
                return b""
            case _Call.STATFS:
                return _STATFS.pack(self._size_bytes // _PAGE, 0, 0, 1, 0, _PAGE, 255, _PAGE, 0)
            case _Call.FLUSH | _Call.RELEASE | _Call.DESTROY:
                return b""
            case _Call.FORGET | _Call.BATCH_FORGET | _Call.INTERRUPT:
                return None
            case _:
                return errno.ENOSYS

    def _note(self, entry: bytes) -> None:
        self._journal.write(entry)
        self._count += 1
        COUNT.pack_into(self._counted, 0, self._count)

    def _attributes(self, node: int) -> bytes:
        mode, size = (0o40755, 0) if node == _ROOT else (0o100600, self._size_bytes)
        return _ATTRIBUTES.pack(node, size, -(-size // 512), mode, 1, 0, 0, 0, _PAGE, 0)


def main() -> None:
    mount, file, journal, count = map(Path, sys.argv[1:])
    kernel = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={kernel},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if CDLL(None, use_errno=True).mount(b"headrace-disk", os.fsencode(mount), b"fuse", 0, options.encode()) != 0:
        sys.exit(f"mounting at {mount}: {os.strerror(get_errno())}")
    _Recorder(kernel, file, journal, count).run()


if __name__ == "__main__":
    main()
