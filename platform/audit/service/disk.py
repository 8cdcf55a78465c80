"""Whether the disk of the store has room: told before a write fails, for an audit that has nothing to write would not notice."""

import os
from pathlib import Path

LEAST_BYTES = 1 << 20
"""More than one transaction of a judge's round writes."""


def why_no_room(store: str) -> str | None:
    """Return why the next write to the store may fail; None where there is room, and for a store on a server."""
    if "://" in store:
        return None
    folder = Path(store).absolute().parent
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return f"the store's folder {folder} cannot be looked at: {error.strerror or error}"
    free_bytes = found.f_bavail * found.f_frsize
    if free_bytes >= LEAST_BYTES:
        return None
    return f"the disk is full: {folder} has {free_bytes} bytes free: make room; the audit goes on by itself"
