"""How a writer wakes an agent that has read everything. inotify does not see what is written into a mapping.

    <root>/.agents/doorbell        one mapped byte. 1: the next append rings. 0: one has rung, or no agent listens
    <root>/.agents/doorbell.fifo   a byte in it wakes the agent

The agent arms the doorbell before it reads, so that an append which it does not see rings. A processor may show the agent a
record later than it shows the writer the byte; the agent's scan (`scan_every_ms`) finds such a record. Where there is no FIFO,
scans alone find everything.
"""

import mmap
import os
import stat
from contextlib import suppress
from pathlib import Path

from ...runtime.logs import get_library_logger
from .enrolment import AGENTS_FOLDER

log = get_library_logger(__name__)

BYTE_FILE = "doorbell"
FIFO_FILE = "doorbell.fifo"
_DRAIN_BYTES = 4096


class Doorbell:
    """The writer's side. `is_armed[0]` is read after each append, and `ring` called when it is 1."""

    def __init__(self, root: Path) -> None:
        """Map the byte, and make it where it is not there. Where it cannot be, no append ever rings."""
        self._fifo = root / AGENTS_FOLDER / FIFO_FILE
        self.is_armed: mmap.mmap | bytearray = bytearray(1)
        try:
            self.is_armed = _mapped(root)
        except OSError as error:
            log.debug("journal_without_doorbell", root=str(root), reason=str(error))

    def ring(self) -> None:
        """Wake the agent, if one listens. Never waits, and raises nothing of its own."""
        self.is_armed[0] = 0
        with suppress(OSError):  # no agent listens, or it has been rung a thousand times
            fifo = os.open(self._fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(fifo, b"\0")
            finally:
                os.close(fifo)


class DoorbellListener:
    """The agent's side, for one root and one thread."""

    def __init__(self, root: Path) -> None:
        """Make what is missing. Raises OSError."""
        self._byte = _mapped(root)
        path = root / AGENTS_FOLDER / FIFO_FILE
        with suppress(FileNotFoundError):
            if not stat.S_ISFIFO(path.lstat().st_mode):
                path.unlink()
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        # Also for writing: a FIFO without a writer would be readable, at its end, all the time.
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Return the descriptor that is readable once a writer has rung."""
        return self._fifo

    def arm(self) -> bool:
        """Have the next append ring. Return whether a writer has rung since the last call. Call it before reading."""
        has_rung = not self._byte[0]
        self._byte[0] = 1
        try:
            os.read(self._fifo, _DRAIN_BYTES)
        except BlockingIOError:
            return has_rung
        return True  # perhaps of a writer that cleared the byte before the last call, and comes to the FIFO only now

    def close(self) -> None:
        """Close the doorbell: no logger can ring it any more."""
        self._byte[0] = 0
        self._byte.close()
        os.close(self._fifo)


def _mapped(root: Path) -> mmap.mmap:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = root / AGENTS_FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    file = os.open(folder / BYTE_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, 1)
        return mmap.mmap(file, 1)
    finally:
        os.close(file)
