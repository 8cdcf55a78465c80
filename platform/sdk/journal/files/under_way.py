"""Which segments an agent has under way (`under-way`): a full journal does not give them up. The mark outlives both processes.

The file holds two unsigned 64-bit integers, the first and the last segment, in one write under its own lock (flock). A writer
that looks has the mark of before or of after, and deletes nothing between an agent's mark and the agent's look at the segment.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNDER_WAY_FILE = "under-way"
_MARK = struct.Struct("<QQ")


class UnderWay:
    """The mark of one journal."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / UNDER_WAY_FILE

    def hold(self, first: int, last: int) -> None:
        """Mark the segments first to last, both included, and no other. Raises OSError."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.pwrite(file, _MARK.pack(first, last), 0)
        finally:
            os.close(file)

    @contextmanager
    def locked(self) -> Iterator[tuple[int, int] | None]:
        """Give the first and the last segment under way, (0, -1) if none is; they stay so inside. None: another has the lock."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            yield None
            return
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            mark = os.pread(file, _MARK.size, 0)
            yield _MARK.unpack(mark) if len(mark) == _MARK.size else (0, -1)
        finally:
            os.close(file)
