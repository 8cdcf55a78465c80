"""Reads the records of one segment from a byte on, and says what cannot be read. Reads with `pread`, never through a mapping: a
file that is cut meanwhile gives fewer bytes here, and no SIGBUS.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .layout import ALIGNMENT, HEADER_BYTES, RawRecord, check_version, is_blank, next_record_from, record_at, salt_of
from .plain_records import PlainRun, RecordSink
from .segment_writer import segment_name

_WINDOW_BYTES = 256 << 10
"""How much is read at once. A record that is longer is read with the whole rest of the segment."""

_PAGE_BYTES = 4096


class Gap(NamedTuple):
    """Bytes [at, end) that hold no record that counts, though something is there or behind.

    With nothing readable behind it, it may be an append that its writer's death cut short.
    """

    at: int
    end: int


class SegmentReader:
    """One segment, open for reading. Raises FileNotFoundError, other OSErrors, `JournalTooNew`, never for damaged content."""

    def __init__(self, folder: Path, journal_id: bytes, segment: int) -> None:
        self.segment = segment
        self.path = folder / segment_name(segment)
        self._salt = salt_of(journal_id, segment)
        self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            header = os.pread(self._file, HEADER_BYTES, 0)
            # A damaged header is no reason to lose the records: what is needed of it is in the journal's head.
            check_version(header, str(self.path))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._file).st_size

    def written_bytes(self) -> int:
        """Return about where the written part ends: where the last page begins behind which all is zeros, by bisection."""
        low, high = 0, self.size_bytes
        while high - low > _PAGE_BYTES:
            middle = (low + high) // 2
            if any(os.pread(self._file, _PAGE_BYTES, middle)):
                low = middle
            else:
                high = middle
        return high

    def sync(self) -> None:
        """Return once everything that any process has written to the segment is on disk. Raises OSError."""
        os.fdatasync(self._file)

    def take_plain(self, at: int, most_bytes: int, until: int, into: RecordSink) -> PlainRun:
        """Hand over events one after another from `at` on, about `most_bytes` of them and a window at most, as far as nothing
        else stands between. None may be there; `records_from` says why.
        """
        at = max(at, HEADER_BYTES)
        window = os.pread(self._file, _WINDOW_BYTES, at)
        run = into.take_plain(window, 0, self._salt, most_bytes, until - at)
        return run._replace(end=at + run.end)

    def records_from(self, at: int, *, is_final: bool) -> Iterator[RawRecord | Gap]:
        """Yield the records and gaps from `at` on, in order, up to the end of what is written.

        Unreadable bytes are a gap if a readable record follows them: records are written one after another, so their writer had
        finished them. Unreadable bytes at the very end are a gap only with `is_final` (no process writes here any more);
        otherwise they may be unfinished, and nothing is yielded for them.
        """
        at = max(at, HEADER_BYTES)
        start, window = at, self._window(at, _WINDOW_BYTES)
        while True:
            record = record_at(window, at - start, self._salt)
            if record is None:
                # Cut by the window's end, or not yet whole, or damaged: the rest of the segment tells.
                if at > start:
                    start, window = at, self._window(at, _WINDOW_BYTES)
                    continue
                if is_blank(window, 0) and not is_final:
                    return
                window = self._rest(at)
                record = record_at(window, 0, self._salt)
            if record is not None:
                yield record._replace(end=record.end + start)
                if record.is_end:
                    return
                at = record.end + start
                continue
            found = next_record_from(window, ALIGNMENT, self._salt)
            if found is not None and not is_final:
                # The record here may have been finished while the bytes behind it were read. Now that a later one is known, it is
                # finished for sure: look again.
                window = self._rest(at)
                if record_at(window, 0, self._salt) is not None:
                    continue
                found = next_record_from(window, ALIGNMENT, self._salt)
            if found is None:
                written = _written_bytes(window) if is_final else 0
                if written:
                    yield Gap(at, at + written)
                return
            yield Gap(at, at + found)
            at += found

    def _window(self, at: int, most_bytes: int) -> memoryview:
        return memoryview(os.pread(self._file, most_bytes, at))

    def _rest(self, at: int) -> memoryview:
        return self._window(at, max(0, self.size_bytes - at))


def _written_bytes(memory: memoryview) -> int:
    """Return where the zeros at the end begin, rounded up to a record's place."""
    written = len(bytes(memory).rstrip(b"\0"))
    return min(len(memory), written + -written % ALIGNMENT)
