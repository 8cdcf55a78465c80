"""One trip to the disk for all that was appended before it: made on the log's thread, run on any, reported on the log's."""

import os
from pathlib import Path

from . import folder as folders
from .segment import Segment


class FlushJob:
    """Holds its files open, so segments may be rolled or deleted meanwhile. One that is never run changes nothing."""

    __slots__ = ("_files", "_folder", "_parts", "entries_made", "up_to_offset")

    def __init__(self, *, up_to_offset: int, segments: list[Segment], folder: Path | None, entries_made: int) -> None:
        """Prepare to flush `segments` as they are now, and the entries of `folder`. Raises OSError."""
        self.up_to_offset = up_to_offset
        """Everything before it is on disk when `run` has returned."""
        self.entries_made = entries_made
        """The folder's entries that are on disk then, counted by the log."""
        self._parts = [(segment, segment.end_offset) for segment in segments]
        self._files = [segment.file() for segment in segments]
        self._folder = folder

    def run(self) -> None:
        """Wait for the disk. From any thread. Raises OSError: what was to be flushed may then be lost whatever is tried again."""
        for file in self._files:
            os.fdatasync(file.fd)
        if self._folder is not None:
            folders.sync(self._folder)

    def done(self) -> list[Segment]:
        """Take note in the segments that the job has run, on their own thread; return them."""
        for segment, end_offset in self._parts:
            segment.flushed_offset = max(segment.flushed_offset, end_offset)
        return [segment for segment, _ in self._parts]
