"""The empty file `flush-failed` in a log's folder: a flush has failed, and what it was about has not been put on disk since.

Why: the system tells of pages that it could not write once, and keeps them in memory as if they were on disk. Whoever flushes
them later, also after a restart, is told of success. Written again they are as new, so the next start does that (`recovery`).
Not flushed: after a reboot the system has nothing in memory but what it read from the disk, and the mark has no more to say.
"""

import contextlib
import os
from pathlib import Path

NAME = "flush-failed"


def leave(folder: Path) -> None:
    """Mark the folder. From any thread. A disk that does not even take a name is one on which nothing can be started either."""
    with contextlib.suppress(OSError):
        os.close(os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def remove(folder: Path) -> None:
    """Remove the mark, all being on disk. Raises OSError."""
    (folder / NAME).unlink(missing_ok=True)
