"""The slow part of moving a log's start: made on the log's thread, run on any, reported on the log's."""

import os
from pathlib import Path

from .. import start_note
from ..segment.file_region import OpenFile
from .flush_job import FlushJob


class StartJob:
    """Puts the new start on disk, and before it what it stands in: a note must not outlive the log that it is about."""

    __slots__ = ("_folder", "_is_flushed", "flush", "offset")

    def __init__(self, *, offset: int, folder: Path, flush: FlushJob | None) -> None:
        """Raises OSError when the folder cannot be opened."""
        self.offset = offset
        self.flush = flush
        """What is not on disk below the new start, None when all is."""
        self._folder = OpenFile(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._is_flushed = flush is None

    def run(self) -> None:
        """Wait for the disk. From any thread. Raises OSError."""
        if self.flush is not None:
            self.flush.run()
            self._is_flushed = True
        start_note.write(self._folder, self.offset)

    @property
    def flush_failed(self) -> bool:
        """After `run` has raised: whether it was the flush, which is not to be tried again."""
        return not self._is_flushed
