"""A small file replaced by one rename: no reader sees half of it, and a kill leaves the old file or the new one."""

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes, *, is_durable: bool = False, mode: int = 0o666) -> None:
    """Write `content` to `path` and make its folder. `is_durable`: it is on disk before it gets the name. `mode`: its rights,
    less the umask. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(scratch, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        scratch.replace(path)
    except OSError:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise


def is_disk_full(error: BaseException) -> bool:
    """Return whether there was no room, on the disk, by a quota or by the process's limit on file sizes: this may pass, unlike a
    wrong path."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
