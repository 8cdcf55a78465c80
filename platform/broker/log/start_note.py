"""Where a log starts when that is not where its first segment does, kept in the small file `log-start`: for DeleteRecords.

    <offset, 20 digits> <CRC-32C of these digits, 8 hexadecimal digits>\\n

Written beside its place, flushed, renamed there, the folder flushed: after a crash it says the old start or the new one. A note
that is lower than the first segment says nothing (retention went past it). Knows no segments.
"""

import os
from pathlib import Path

from ...wire.crc32c import crc32c
from .segment.file_region import OpenFile
from .segment.whole_write import write_all

NAME = "log-start"
SCRATCH = "log-start.new"


def write(folder: OpenFile, offset: int) -> None:
    """Return when it is on disk. A note that says as much or more stays. From any thread. Raises OSError.

    By the folder held open and not by its path: a topic that was deleted meanwhile may have a successor of the same name there.
    """
    noted = _said(_content(folder))
    if noted is None or noted < offset:
        fd = os.open(SCRATCH, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644, dir_fd=folder.fd)
        try:
            write_all(fd, memoryview(_line(offset)), 0)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(SCRATCH, NAME, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
    # In any case: who wrote what is there may have come no further than its name.
    os.fsync(folder.fd)


def read(folder: Path) -> int | None:
    """Return the noted offset; None when there is no note, or one that is damaged (`is_damaged`). Raises OSError."""
    try:
        return _said((folder / NAME).read_bytes())
    except FileNotFoundError:
        return None


def is_damaged(folder: Path) -> bool:
    """Return whether there is a note that says nothing. Raises OSError."""
    return (folder / NAME).exists() and read(folder) is None


def _content(folder: OpenFile) -> bytes:
    try:
        fd = os.open(NAME, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder.fd)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(fd, 64, 0)
    finally:
        os.close(fd)


def _said(line: bytes) -> int | None:
    digits = line[:20]
    return int(digits) if digits.isdigit() and len(digits) == 20 and line == _line(int(digits)) else None


def _line(offset: int) -> bytes:
    digits = b"%020d" % offset
    return b"%s %08x\n" % (digits, crc32c(digits))
