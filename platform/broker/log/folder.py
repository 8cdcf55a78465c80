"""A partition's folder: which segment files are in it, how a change of its entries gets to the disk. Knows names, no contents."""

import os
from pathlib import Path

from .segment import DELETED_SUFFIX, base_offset_of


def segment_bases(folder: Path) -> list[int]:
    """Return the base offsets of the segment files, ascending. Files of other names are left alone. Raises OSError."""
    bases = (base_offset_of(name) for name in os.listdir(folder))
    return sorted(base for base in bases if base is not None)


def make(folder: Path) -> None:
    """Make the folder and those above it where they are missing, each entered on disk. Raises OSError."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync(path.parent)


def sync(folder: Path) -> None:
    """Return when the folder's entries (files made, renamed, deleted) are on disk. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_leftovers(folder: Path) -> None:
    """Remove what a crash left of segments whose deletion had begun. Raises OSError."""
    for name in os.listdir(folder):
        if name.endswith(DELETED_SUFFIX):
            os.unlink(folder / name)
