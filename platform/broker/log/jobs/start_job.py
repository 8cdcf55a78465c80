"""Move the log start: put what is before it on disk, then the note of the new start (`start_note`).

In this order, because the note must not survive a power cut that takes the log that it is about.
"""

import os
from pathlib import Path

from .. import start_note
from ..segment.file_region import OpenFile
from ..segments import DeletedSegment
from .flush_job import FlushWork
from .log_job import LogJob


class StartWork:
    """Writes the note for the start at `offset`."""

    __slots__ = ("_folder", "_is_flushed", "flush", "offset")

    def __init__(self, *, offset: int, folder: Path, flush: FlushWork | None) -> None:
        """Raises OSError when the folder cannot be opened."""
        self.offset = offset
        self.flush = flush
        """Puts on disk what is below the new start, None when everything is."""
        self._folder = OpenFile(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._is_flushed = flush is None

    def run(self) -> None:
        """Wait for the disk. Raises OSError."""
        if self.flush is not None:
            self.flush.run()
            self._is_flushed = True
        start_note.write(self._folder, self.offset)

    @property
    def flush_failed(self) -> bool:
        """After `run` has raised: whether the flush failed, which must not be tried again."""
        return not self._is_flushed


StartJob = LogJob[StartWork, list[DeletedSegment]]
