"""How much room the file system has where the logs are, and whether that is too little to append. Keeps and writes nothing.

What a file system does not tell (a quota) is not seen here: `health` also hears of appends that were refused.
"""

import os
from dataclasses import dataclass
from pathlib import Path

LEAST_BYTES = 1 << 20
"""The largest batch that a topic takes by default: with less than this an append may be refused, and soon will be."""
LEAST_FILES = 4
"""A new segment's file and its sidecars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRoom:
    """What a file system says of itself."""

    path: Path
    free_bytes: int
    """For a user that is not root."""
    free_files: int | None
    """None where the file system counts none."""
    is_read_only: bool = False


def look(path: Path) -> DiskRoom | str:
    """Return the room where `path` is, or why nobody can say."""
    try:
        told = os.statvfs(path)
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror or error}"
    return DiskRoom(
        path=path,
        free_bytes=told.f_bavail * told.f_frsize,
        free_files=told.f_favail if told.f_files else None,
        is_read_only=bool(told.f_flag & os.ST_RDONLY),
    )


def why_no_room(room: DiskRoom | str) -> str | None:
    """Return why appends fail or are about to, None where there is room."""
    if isinstance(room, str):
        return room
    if room.is_read_only:
        return f"{room.path} is on a file system that may only be read: mount it for writing"
    if room.free_bytes < LEAST_BYTES:
        return (
            f"the disk is full: {room.path} has {room.free_bytes} bytes free, an append may need {LEAST_BYTES}: "
            "make room, or let retention delete more; the broker goes on by itself"
        )
    if room.free_files is not None and room.free_files < LEAST_FILES:
        return (
            f"the disk takes no more files: {room.path} has {room.free_files} free, a new segment needs {LEAST_FILES}: "
            "delete files there; the broker goes on by itself"
        )
    return None
