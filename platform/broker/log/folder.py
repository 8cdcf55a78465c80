"""A partition's folder: list its segment files, and put changed entries on disk. Knows names, but no contents."""

import os
from collections.abc import Iterable
from pathlib import Path

from .segment.segment_name import DELETED_SUFFIX, base_offset_of

SCRATCH_SUFFIX = ".new"
"""The suffix of a small file that is written first and then renamed to its place."""


def segment_bases(folder: Path) -> list[int]:
    """Return the base offsets of the segment files, ascending. Files of other names are left alone. Raises OSError."""
    return bases_among(os.listdir(folder))


def bases_among(names: Iterable[str]) -> list[int]:
    """Return the base offsets of the segment files among `names`, ascending."""
    return sorted(base for name in names if (base := base_offset_of(name)) is not None)


def make(folder: Path, *, enter: bool = True) -> bool:
    """Make the folder and its missing parents; return whether it was missing. `enter`: put the new names on disk.

    Raises OSError.
    """
    try:
        folder.mkdir()  # Before any look: most often it is missing, and its parent is there.
    except FileExistsError:
        if not folder.is_dir():
            raise
        return False
    except FileNotFoundError:
        make(folder.parent, enter=enter)
        folder.mkdir(exist_ok=True)
    if enter:
        sync(folder.parent)
    return True


def sync(folder: Path) -> None:
    """Wait until the folder's entries (files made, renamed, deleted) are on disk. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_leftovers(folder: Path) -> list[str]:
    """Remove segments whose deletion had begun, and half-written small files; return the names of the other files.

    Raises OSError.
    """
    kept = []
    for name in os.listdir(folder):
        if name.endswith((DELETED_SUFFIX, SCRATCH_SUFFIX)):
            os.unlink(folder / name)
        else:
            kept.append(name)
    return kept
