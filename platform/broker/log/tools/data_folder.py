"""Find the partitions' folders in a folder that the operator names, and find out whether a broker uses it.

A partition's folder holds segment files. A data folder holds partitions' folders.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....errors import HeadraceError
from .. import first_append, start_note
from ..folder import segment_bases
from ..log_format import refuse_format_1
from ..segment.segment_name import file_name

LOCK_NAME = ".lock"
_OWN_NAMES = (first_append.NAME, start_note.NAME)


class NotALogFolder(HeadraceError):
    """Neither a partition's folder nor a data folder."""


class HeldByABroker(HeadraceError):
    """A running broker uses the folder."""


def partition_folders(folder: Path) -> list[Path]:
    """Return `folder` when it is a partition's, else those in it, sorted. Raises `NotALogFolder`, `OldFormat`, OSError."""
    if not folder.is_dir():
        raise NotALogFolder(f"{folder} is not a folder: give a partition's folder (<topic>-<number>) or a broker's data folder")
    if _is_partition(folder):
        found = [folder]
    else:
        found = sorted(path for path in folder.iterdir() if path.is_dir() and _is_partition(path))
    for one in found:
        for base_offset in segment_bases(one)[:1]:
            refuse_format_1(one / file_name(base_offset), base_offset)
    if not found:
        raise NotALogFolder(
            f"{folder} holds no segment files (twenty digits and .log), and no folders that do: give a partition's folder "
            "(<topic>-<number>) or a broker's data folder"
        )
    return found


def is_held(folder: Path) -> bool:
    """Return whether a broker holds `folder`, or the data folder that it is in. Raises OSError."""
    try:
        with held(folder, fcntl.LOCK_SH):
            return False
    except HeldByABroker:
        return True


@contextmanager
def held(folder: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock of the data folder, if there is one, as a broker does. Raises `HeldByABroker`, OSError."""
    path = next((path for path in (folder / LOCK_NAME, folder.absolute().parent / LOCK_NAME) if path.exists()), None)
    if path is None:
        yield
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeldByABroker(f"a broker holds {path.parent}: stop it first, or work on a copy (cp -a)") from None
        yield
    finally:
        os.close(fd)


def _is_partition(folder: Path) -> bool:
    return bool(segment_bases(folder)) or any((folder / name).exists() for name in _OWN_NAMES)
