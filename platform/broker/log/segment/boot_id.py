"""Which run of the operating system this is: what was written under it is still in its page cache, flushed or not.

A process may die at any moment and take nothing of that along; a power cut or a crash of the system ends the run. Source: Linux,
`/proc/sys/kernel/random/boot_id`.
"""

import functools
import uuid
from pathlib import Path


@functools.cache
def current() -> bytes:
    """Return 16 bytes that are the same until the system starts again; where it does not say, until this process ends."""
    try:
        return uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).bytes
    except (OSError, ValueError):
        return uuid.uuid4().bytes
