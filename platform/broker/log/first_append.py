"""When the active segment got its first append, kept beside it in the one-line file `first-append`: base offset and milliseconds.

A file system keeps the time of the last append (mtime) and not of the first. The file is disposable: without it, or when it
speaks of another segment, the age is taken from the segment before. It is never flushed. Making a file takes fifteen times as
long as an append, so the log's owner writes it soon after, on another thread.
"""

from pathlib import Path
from typing import NamedTuple

NAME = "first-append"


class FirstAppend(NamedTuple):
    """What is to be noted."""

    folder: Path
    base_offset: int
    first_append_ms: int

    def run(self) -> None:
        """Note it. From any thread."""
        write(self.folder, self.base_offset, self.first_append_ms)


def write(folder: Path, base_offset: int, first_append_ms: int) -> None:
    """Note it. A disk that has no room for 40 bytes will say so to the append itself, so that is no error here."""
    try:
        (folder / NAME).write_text(f"{base_offset:020d} {first_append_ms}\n")
    except OSError:
        return


def read(folder: Path, base_offset: int) -> int | None:
    """Return the noted time for the segment at `base_offset`; None when there is none, or none that can be read."""
    try:
        noted_base, noted_ms = (folder / NAME).read_text().split()
        return int(noted_ms) if int(noted_base) == base_offset else None
    except (OSError, ValueError):
        return None
