"""Whether the disk of a folder has room: told before a write fails, for a process that has nothing to write would not notice."""

import os
from pathlib import Path

LEAST_BYTES = 1 << 20
"""More than one transaction of any store of ours writes."""


def why_full(folder: Path, what: str) -> str | None:
    """Return why the next write to the folder may fail; None where there is room. `what` it is to its process, in words."""
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return f"{what} {folder} cannot be looked at: {error.strerror or error}"
    free_bytes = found.f_bavail * found.f_frsize
    if free_bytes >= LEAST_BYTES:
        return None
    return f"the disk is full: {folder} has {free_bytes} bytes free: make room; this process goes on by itself"
