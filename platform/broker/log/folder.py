"""A partition's folder: which segment files are in it, how a change of its entries gets to the disk. Knows names, no contents."""

import os
from collections.abc import Iterable
from pathlib import Path

from .segment.segment import DELETED_SUFFIX, base_offset_of

SCRATCH_SUFFIX = ".new"
"""Of a small file that is written beside its place, to be renamed there."""


def segment_bases(folder: Path) -> list[int]:
    """Return the base offsets of the segment files, ascending. Files of other names are left alone. Raises OSError."""
    return bases_among(os.listdir(folder))


def bases_among(names: Iterable[str]) -> list[int]:
    """Return the base offsets of the segment files among files of these names, ascending."""
    return sorted(base for name in names if (base := base_offset_of(name)) is not None)


def make(folder: Path, *, enter: bool = True) -> bool:
    """Make the folder and those above it where they are missing, and `enter` each on disk; return whether it was missing.

    Raises OSError.
    """
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        if enter:
            sync(path.parent)
    return bool(missing)


def sync(folder: Path) -> None:
    """Return when the folder's entries (files made, renamed, deleted) are on disk. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_leftovers(folder: Path) -> list[str]:
    """Remove what a crash left of segments whose deletion had begun, and of small files half written; return the other files.

    Raises OSError.
    """
    kept = []
    for name in os.listdir(folder):
        if name.endswith((DELETED_SUFFIX, SCRATCH_SUFFIX)):
            os.unlink(folder / name)
        else:
            kept.append(name)
    return kept
