"""Writes the records of one segment into its mapping. Knows no policy and no other segment.

A record is appended by one call of `mmap.write`: it claims the place and copies the bytes while the thread holds the GIL. So
there is no lock: threads, signal handlers and `__del__` in the middle of an append come before or after it, never into it.
"""

import mmap
import os
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

from ....runtime.native import native
from . import layout
from .layout import Kind, header_of, salt_of

SUFFIX = ".seg"
record_bytes: Callable[[int, int, int, bytes | None, bytes, int], bytes] = (
    layout.record_bytes if native is None else native.journal_record
)


def segment_name(segment: int) -> str:
    """Return the name of a segment's file."""
    return f"{segment:020d}{SUFFIX}"


class Numbers:
    """Gives the records of one journal their numbers: each one once, none left out."""

    def __init__(self) -> None:
        self._next = count().__next__
        self._unused: list[int] = []

    def take(self) -> int:
        """Return the next number: the smallest that is not in use."""
        # `heappop` may find the list empty again: another thread was here in between.
        try:
            return heappop(self._unused) if self._unused else self._next()
        except IndexError:
            return self._next()

    def put_back(self, number: int) -> None:
        """The record of this number was not written: the next one gets the number."""
        heappush(self._unused, number)

    @property
    def given(self) -> int:
        """How many records have got a number."""
        number = self._next()
        heappush(self._unused, number)
        return number + 1 - len(self._unused)


class SegmentWriter:
    """One segment, open for writing. It stays mapped as long as someone may hold this object."""

    def __init__(self, folder: Path, journal_id: bytes, segment: int, segment_bytes: int, numbers: Numbers) -> None:
        """Make the file, with all its disk space: a write into the mapping cannot meet a full disk. Raises OSError."""
        self.segment = segment
        path = folder / segment_name(segment)
        self.numbers = numbers
        self._salt = salt_of(journal_id, segment)
        scratch = path.with_suffix(".new")
        file = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, segment_bytes)
            self._memory = mmap.mmap(file, segment_bytes)
            self._memory.write(header_of(journal_id, segment, segment_bytes))
            os.rename(scratch, path)
        except BaseException:
            os.close(file)
            scratch.unlink(missing_ok=True)
            raise
        self._file = file
        self._write = self._memory.write

    def append(self, kind: int, timestamp_ms: int, key: bytes | None, body: bytes) -> bool:
        """Return whether the record is in the segment; False: there is no room for it. Hot."""
        number = self.numbers.take()
        try:
            record = record_bytes(number, timestamp_ms, kind, key, body, self._salt)
        except BaseException:
            self.numbers.put_back(number)
            raise
        try:
            self._write(record)
        except ValueError:  # of the write. What a signal handler raises comes behind it: the record is there.
            self.numbers.put_back(number)
            return False
        return True

    def fill(self, kind: Kind) -> bool:
        """End the segment: one record takes all room that is left, so nothing can be appended behind it.

        Return whether that record is there; False: there was no room for its head, and zeros fill the segment.
        """
        while (left := len(self._memory) - self._memory.tell()) > 0:
            if left < _EMPTY:
                # Zeros. A reader continues in the next segment, if there is one.
                filler = bytes(left)
            else:
                filler = record_bytes(self.numbers.given, 0, kind, None, bytes(left - _EMPTY), self._salt)
            try:
                self._write(filler)
            except ValueError:
                continue  # A record came in between.
            return left >= _EMPTY
        return False

    def sync(self) -> None:
        """Return once everything that was appended before is on the disk. Raises OSError."""
        os.fdatasync(self._file)

    def __del__(self) -> None:
        file, self._file = getattr(self, "_file", -1), -1
        if file >= 0:
            os.close(file)

    @property
    def position(self) -> int:
        """Where the next record will stand."""
        return self._memory.tell()


_EMPTY = len(record_bytes(0, 0, Kind.END_OF_SEGMENT, None, b"", 0))
