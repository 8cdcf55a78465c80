"""The small file `log-start`: where the log starts, when DeleteRecords has moved the start behind the first segment's base.

    <offset, 20 digits> <CRC-32C of these digits, 8 hexadecimal digits>\\n

It is written to a scratch file, flushed and renamed, and the folder is flushed. So after a crash it holds the old start or the
new one. A note below the first segment's base counts for nothing: retention has moved past it. Knows no segments.
"""

import os
from pathlib import Path

from ...wire.batch.crc32c import crc32c
from .segment.file_region import OpenFile
from .segment.whole_write import write_all

NAME = "log-start"
SCRATCH = "log-start.new"


def write(folder: OpenFile, offset: int) -> None:
    """Wait until the note is on disk. A note with the same or a later start stays. From any thread. Raises OSError.

    Uses the open folder and not its path: the topic may have been deleted and made again meanwhile.
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
    # In any case: the process that wrote an existing note may have died before this.
    os.fsync(folder.fd)


def read(folder: Path) -> int | None:
    """Return the noted offset; None when there is no note or a damaged one (`is_damaged`). Raises OSError."""
    try:
        return _said((folder / NAME).read_bytes())
    except FileNotFoundError:
        return None


def is_damaged(folder: Path) -> bool:
    """Return whether there is a damaged note. Raises OSError."""
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
