"""The id of this run of the operating system. Bytes written during the run are readable until it ends, flushed or not.

The death of a process loses nothing of the page cache. A power cut or a crash of the system ends the run. Source: Linux,
`/proc/sys/kernel/random/boot_id`.
"""

import functools
import uuid
from pathlib import Path


@functools.cache
def current() -> bytes:
    """Return 16 bytes that stay the same until the system restarts; until this process ends, when the system has no such id."""
    try:
        return uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).bytes
    except (OSError, ValueError):
        return uuid.uuid4().bytes
