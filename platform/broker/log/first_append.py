"""The time of the active segment's first append, in the one-line file `first-append` beside it: base offset and milliseconds.

The file system keeps the time of the last append (mtime), but not of the first. The file is disposable: when it is missing or
names another segment, the age is taken from the segment before. It is never flushed. Making a file takes fifteen times as long as
an append, so the log's owner writes it soon after the append, on another thread.
"""

from pathlib import Path
from typing import NamedTuple

from .jobs.log_job import LogJob

NAME = "first-append"


class FirstAppend(NamedTuple):
    """The note to be written."""

    folder: Path
    base_offset: int
    first_append_ms: int

    def run(self) -> None:
        """Write the note. From any thread."""
        write(self.folder, self.base_offset, self.first_append_ms)


NoteJob = LogJob[FirstAppend, None]


def write(folder: Path, base_offset: int, first_append_ms: int) -> None:
    """Write the note. Errors are ignored: on a disk without room for 40 bytes the append itself fails."""
    try:
        (folder / NAME).write_text(f"{base_offset:020d} {first_append_ms}\n")
    except OSError:
        return


def read(folder: Path, base_offset: int) -> int | None:
    """Return the noted time for the segment at `base_offset`; None when there is no readable note for it."""
    try:
        noted_base, noted_ms = (folder / NAME).read_text().split()
        return int(noted_ms) if int(noted_base) == base_offset else None
    except (OSError, ValueError):
        return None
