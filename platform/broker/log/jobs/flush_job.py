"""Put on disk what was appended before the job was made: one fdatasync a segment, one fsync a changed folder."""

import os
from pathlib import Path

from .. import flush_mark
from ..segment.file_region import OpenFile
from ..segment.segment import Segment
from .log_job import LogJob


class FlushWork:
    """Holds its files open, so segments may be rolled or deleted meanwhile."""

    __slots__ = ("_files", "_folder", "_folders", "_parts", "entries_made", "up_to_offset")

    def __init__(
        self, folder: Path, *, up_to_offset: int, segments: list[Segment], folders: list[Path], entries_made: int
    ) -> None:
        """Prepare to flush `segments` of the log in `folder` as they are now, and the entries of `folders`. Raises OSError."""
        self._folder = folder
        self.up_to_offset = up_to_offset
        """Everything before it is on disk when `run` has returned."""
        self.entries_made = entries_made
        """The folder's entries that are on disk then, counted by the log."""
        self._parts = [(segment, segment.end_offset) for segment in segments]
        self._files = [segment.file() for segment in segments]
        # Opened here and not in `run`: that no descriptor is left does not mean that the disk failed.
        self._folders = [OpenFile(folder, os.O_RDONLY | os.O_DIRECTORY) for folder in folders]

    @property
    def only_fd(self) -> int | None:
        """The descriptor, when one fdatasync is the whole work; None when there is more to do."""
        return self._files[0].fd if len(self._files) == 1 and not self._folders else None

    def run(self) -> None:
        """Wait for the disk. Raises OSError: the data may be lost then, and a second try would report success."""
        try:
            for file in self._files:
                os.fdatasync(file.fd)
            for folder in self._folders:
                os.fsync(folder.fd)
        except OSError:
            self.mark_failed()
            raise

    def mark_failed(self) -> None:
        """Leave a mark in the folder, so that the next start knows of the failure (`flush_mark`). From any thread."""
        flush_mark.leave(self._folder)

    def mark_segments(self) -> list[Segment]:
        """Set what is on disk in the segments, on the log's thread; return them."""
        for segment, end_offset in self._parts:
            segment.flushed_offset = max(segment.flushed_offset, end_offset)
        return [segment for segment, _ in self._parts]


FlushJob = LogJob[FlushWork, None]
