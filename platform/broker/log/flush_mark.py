"""The empty file `flush-failed` in a log's folder: a flush has failed, and its data have not been written again since.

The system reports pages that it could not write only once, and keeps them in memory as if they were on disk. A later flush, also
after a restart of the process, then reports success. So the next start writes these pages again (`recovery`). The mark is not
flushed: after a reboot the memory holds only what was read from the disk, and the mark is not needed.
"""

import contextlib
import os
from pathlib import Path

NAME = "flush-failed"


def leave(folder: Path) -> None:
    """Mark the folder. From any thread. Errors are ignored: on a disk that takes no new name, no log starts either."""
    with contextlib.suppress(OSError):
        os.close(os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def remove(folder: Path) -> None:
    """Remove the mark, because everything is on disk now. Raises OSError."""
    (folder / NAME).unlink(missing_ok=True)
