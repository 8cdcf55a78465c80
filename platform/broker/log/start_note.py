"""Where a log starts when that is not where its first segment does, kept in the small file `log-start`: for DeleteRecords.

    <offset, 20 digits> <CRC-32C of these digits, 8 hexadecimal digits>\\n

Written beside its place, flushed, renamed there, the folder flushed: after a crash it says the old start or the new one. A note
that is lower than the first segment says nothing (retention went past it). Knows no segments.
"""

import os
from pathlib import Path

from ...wire.crc32c import crc32c
from . import folder as folders

NAME = "log-start"
SCRATCH = "log-start.new"


def write(folder: Path, offset: int) -> None:
    """Return when it is on disk. A note that says as much or more stays. From any thread. Raises OSError."""
    noted = read(folder)
    if noted is not None and noted >= offset:
        return
    scratch = folder / SCRATCH
    with scratch.open("wb") as file:
        file.write(_line(offset))
        file.flush()
        os.fsync(file.fileno())
    os.rename(scratch, folder / NAME)
    folders.sync(folder)


def read(folder: Path) -> int | None:
    """Return the noted offset; None when there is no note, or one that is damaged (`is_damaged`). Raises OSError."""
    try:
        line = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    digits = line[:20]
    return int(digits) if digits.isdigit() and len(digits) == 20 and line == _line(int(digits)) else None


def is_damaged(folder: Path) -> bool:
    """Return whether there is a note that says nothing. Raises OSError."""
    return (folder / NAME).exists() and read(folder) is None


def _line(offset: int) -> bytes:
    digits = b"%020d" % offset
    return b"%s %08x\n" % (digits, crc32c(digits))
