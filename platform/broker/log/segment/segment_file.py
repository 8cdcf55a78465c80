"""The file of one segment: opened when it is needed, closed when other files need the descriptor.

Knows no batches and no offsets. Raises OSError as the system does.
"""

import os
from pathlib import Path

from . import open_files
from .file_region import OpenFile


class SegmentFile:
    """A path and, while the file is open, its descriptor.

    Each opening names its `holder`: the segment that `open_files` may later ask, on any thread, to close the file.
    """

    __slots__ = ("handle", "is_writable", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle: OpenFile | None = None
        """The open file, None while it is closed. Another thread may set it to None: copy it before use."""
        self.is_writable = False
        """Whether `handle` was opened for writing."""

    def create(self, holder: open_files.Holder) -> None:
        """Make the file, empty, open for appends. The folder's entry is not flushed."""
        self.handle = OpenFile(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self.is_writable = True
        open_files.shared.opened(holder)

    def open_for_append(self, holder: open_files.Holder) -> OpenFile:
        """Return the file opened for reading and writing."""
        handle = self.handle
        if handle is None or not self.is_writable:
            handle = self.handle = OpenFile(self.path, os.O_RDWR)
            self.is_writable = True
            open_files.shared.opened(holder)
        return handle

    def open_for_reading(self, holder: open_files.Holder) -> OpenFile:
        """Return the file opened at least for reading."""
        handle = self.handle
        if handle is None:
            self.is_writable = False
            handle = self.handle = OpenFile(self.path, os.O_RDONLY)
            open_files.shared.opened(holder)
        return handle

    def close_file(self, holder: open_files.Holder) -> None:
        """Close the file. Regions that are still being sent keep the descriptor. From any thread."""
        self.handle = None
        open_files.shared.closed(holder)

    def set_mtime(self, time_ms: int) -> None:
        """Set the file's mtime, which a restart, `cp -p` and `rsync -a` keep."""
        os.utime(self.path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))
