"""How much room the file system of a folder has, and whether that is too little to write. Keeps and writes nothing.

A process that has nothing to write learns here that its disk is full, before a write fails. A limit that the file system does not
report (a quota) is not seen."""

import os
from dataclasses import dataclass
from pathlib import Path

LEAST_BYTES = 1 << 20
"""The largest batch that a topic accepts by default, and more than one transaction of any store of ours writes. With less
room than this a write may fail, and soon will."""
LEAST_FILES = 4
"""A new segment's file and its sidecars: the most that one write of ours creates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRoom:
    """What a file system reports about itself."""

    path: Path
    free_bytes: int
    """For a user that is not root."""
    free_files: int | None
    """None where the file system does not count files."""
    is_read_only: bool = False


def look(path: Path) -> DiskRoom | str:
    """Return the room of the file system of `path`, or why it cannot be read."""
    try:
        found = os.statvfs(path)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    return DiskRoom(
        path=path,
        free_bytes=found.f_bavail * found.f_frsize,
        free_files=found.f_favail if found.f_files else None,
        is_read_only=bool(found.f_flag & os.ST_RDONLY),
    )


def why_no_room(room: DiskRoom | str) -> str | None:
    """Return why writes fail or soon will, None where there is room."""
    if isinstance(room, str):
        return room
    if room.is_read_only:
        return f"{room.path} is on a file system that may only be read: mount it for writing"
    if room.free_bytes < LEAST_BYTES:
        return (
            f"the disk is full: {room.path} has {room.free_bytes} bytes free, a write may need {LEAST_BYTES}: "
            "make room, or let retention delete more; the process continues without a restart"
        )
    if room.free_files is not None and room.free_files < LEAST_FILES:
        return (
            f"the disk takes no more files: {room.path} has {room.free_files} free, a write may need {LEAST_FILES}: "
            "delete files there; the process continues without a restart"
        )
    return None
