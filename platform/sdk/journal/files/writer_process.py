"""Whether a journal's writer lives. It holds a lock (flock) on the journal; its id and start tell when only a child holds it.

A child that was forked without Python's knowledge keeps the lock's file open after its parent's death. Where ids can be compared
(one boot, one pid namespace), the lock alone does not make a dead writer alive.
"""

import fcntl
import os
from pathlib import Path

from .head import WriterProcess

LOCK_FILE = "writer.lock"


def this_process() -> WriterProcess:
    """Return the calling process. On a system without `/proc` only its id is known."""
    return WriterProcess(
        process_id=os.getpid(), start_ticks=_start_ticks(os.getpid()) or 0, pid_namespace=_pid_namespace(), boot_id=boot_id()
    )


def boot_id() -> str:
    """Return the id of this boot of the machine; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def lock_file(path: Path) -> int | None:
    """Return the open, locked file; None if another holds it. It is locked until it is closed, or its process dies."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if try_lock(file):
            return file
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def try_lock(file: int) -> bool:
    """Lock an open file unless it is locked; return whether it was. Raises OSError."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_alive(folder: Path, writer: WriterProcess) -> bool:
    """Return whether the writer may still write. Opens the lock's file for reading only, and never keeps it locked."""
    if _is_gone(writer):
        return False
    try:
        file = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared: two readers that look at once do not take each other for the writer.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _is_gone(writer: WriterProcess) -> bool:
    """Return whether the process is known to be dead; False where ids cannot be compared."""
    if writer.boot_id != boot_id():
        return True
    if not writer.start_ticks or writer.pid_namespace != _pid_namespace():
        return False
    return _start_ticks(writer.process_id) != writer.start_ticks


def _start_ticks(process_id: int) -> int | None:
    """Return when a process started, in clock ticks since the boot; None if it is not there (any more)."""
    try:
        text = Path(f"/proc/{process_id}/stat").read_bytes()
    except OSError:
        return None
    # The name of the program, in brackets, may itself hold brackets and blanks.
    words = text[text.rfind(b")") + 2 :].split()
    # A zombie may have threads that still run: its lock tells when the last of them is gone.
    return int(words[19])


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
