"""Where a journal is made before it has its name, and how such a folder goes that its process left: nothing was taken into it.

Whoever makes a journal clears its application's folder, and the agent all of them.
"""

import os
import shutil
import time
import uuid
from contextlib import suppress
from pathlib import Path

from .writer_process import LOCK_FILE, try_lock

_PREFIX = ".new-"
_YOUNG_S = 60
"""Its process may be between the folder and the lock."""
_ABANDONED_S = 3_600
"""Also if another process holds the lock, for example a child of the dead process."""


def new_scratch(parent: Path) -> Path:
    """Return the name of a folder for one more journal."""
    return parent / f"{_PREFIX}{uuid.uuid4().hex}"


def remove_abandoned(parent: Path) -> int:
    """Remove what processes left that died while they made a journal below `parent`; return how many. Never raises OSError."""
    removed = 0
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            age_s = time.time() - path.stat().st_mtime
            if age_s > _ABANDONED_S or (age_s > _YOUNG_S and _has_no_maker(path)):
                shutil.rmtree(path)
                removed += 1
    return removed


def _has_no_maker(path: Path) -> bool:
    """Return whether the process that made the folder is gone. Raises OSError."""
    try:
        file = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        return try_lock(file)
    finally:
        os.close(file)
