"""Makes what was written durable: one flush of the disk serves every thread that waits for it."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from .files.folder import sync_folder
from .files.losses_table import LOSSES_FILE
from .files.segment_writer import SegmentWriter, segment_name


class GroupSync:
    """Flushes of one journal. May be called again from a signal handler that interrupts a call: that one flushes for itself."""

    def __init__(self, folder: Path, first: SegmentWriter) -> None:
        self._folder = folder
        # Re-entrant: a thread that is interrupted while it flushes must not wait for itself.
        self._flushing = threading.RLock()
        self.failed_below = 0
        """Segments before this number were refused by the disk: what is written must go to a later one."""
        self._begun = 0
        self._done = 0
        self._first_unflushed = first.segment
        self._newest_name = first.segment
        """The newest segment whose name is on the disk."""

    def flush(self, written: int, current: Callable[[], SegmentWriter]) -> None:
        """Return once everything that this thread wrote, up to the segment `written`, is on the disk.

        `current` gives the segment in use. Raises OSError if the disk refuses. A disk that refused once may have thrown away
        what it was given, and not say so again: for those segments every later flush fails.
        """
        needed = self._begun + 1
        with self._flushing:
            if self._done >= needed:
                return  # Another thread's flush began after this call, and is done.
            if written < self.failed_below:
                raise OSError(errno.EIO, f"segment {written} could not be flushed before")
            self._begun += 1
            # Only now: a thread that counts on this flush has written to this segment, or to an earlier one.
            number, last = self._begun, current()
            try:
                for segment in range(self._first_unflushed, last.segment):
                    _flush_file(self._folder / segment_name(segment))
                last.sync()
                if last.segment > self._newest_name:
                    sync_folder(self._folder)
                    self._newest_name = last.segment
            except OSError:
                self.failed_below = self._first_unflushed = last.segment + 1
                raise
            self._first_unflushed = max(self._first_unflushed, last.segment)
            self._done = max(self._done, number)

    def flush_losses(self) -> None:
        """Return once the counts of losses are on the disk. Raises OSError."""
        _flush_file(self._folder / LOSSES_FILE)


def _flush_file(path: Path) -> None:
    """Flush a file that may be shipped and deleted already."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fdatasync(file)
    finally:
        os.close(file)
