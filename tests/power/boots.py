"""Processes that see another boot of the system than the one they run in: they find what a power cut has left."""

import uuid
from pathlib import Path

_IN_ANOTHER_BOOT = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'


def in_another_boot(file: Path) -> list[str]:
    """Return the command that runs the command behind it in another boot, the same one each time. `file` is made for its id."""
    file.write_text(f"{uuid.uuid4()}\n")
    return ["unshare", "--mount", "sh", "-c", _IN_ANOTHER_BOOT, str(file)]
