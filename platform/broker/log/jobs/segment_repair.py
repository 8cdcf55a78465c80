"""Write whole batches over a damaged range of a segment, in place and durably; the damaged bytes are kept aside.

A crash at any point leaves the damage or the repair, batch by batch, and never anything else: the damaged bytes are on disk aside
first; then the batches are written and flushed; the sidecar, which may say that the range is damaged, goes last. Until then a
restart finds damage (by the sidecar or by a CRC), and the repair is done again.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ....wire.batch.record_batch import BatchHeader
from .. import folder as folders
from ..segment import sidecar_file
from ..segment.batch_walk import walk
from ..segment.file_region import OpenFile
from ..segment.segment import Segment
from ..segment.segment_name import file_name
from ..segment.whole_write import write_all
from .log_job import LogJob


class Repaired(NamedTuple):
    """Half-open."""

    from_offset: int
    to_offset: int
    record_count: int


class SegmentRepair:
    """`batches` are whole, follow each other from the range's begin on, and were checked. Raises OSError."""

    def __init__(self, folder: Path, segment: Segment, batches: Sequence[tuple[BatchHeader, memoryview]], aside: Path) -> None:
        self.segment = segment
        first, last = batches[0][0], batches[-1][0]
        self.from_offset, self.to_offset = first.position, last.next_offset
        self.record_count = sum(header.record_count for header, _ in batches)
        self.end_bytes = last.position - segment.base_offset + last.size_bytes
        """Where the last batch ends in the file."""
        self.found: list[BatchHeader] = []
        """The batches that are known afterwards: those around the range, too, as far as the list of starts is sparse."""
        self.walked_to = self.to_offset
        self.aside = aside
        """The folder that gets the damaged bytes."""
        self._folder, self._path, self._batches = folder, segment.path, batches
        # Opened here: by the time of `run` another log may have files of these names.
        self._file = OpenFile(segment.path, os.O_RDWR)
        self.walked_from = self.from_offset
        starts = segment.index.starts
        if segment.index.is_complete and len(starts):
            known_from = starts.last_at_or_before(self.from_offset)
            if known_from <= self.from_offset:
                self.walked_from = known_from
            after = starts.first_after(self.to_offset - 1)
            self.walked_to = max(self.to_offset, segment.end_offset if after is None else after)

    def run(self) -> None:
        """Wait for the disk. Raises OSError; what was damaged is damaged then, or repaired."""
        base = self.segment.base_offset
        file = self._file
        status = os.fstat(file.fd)
        self._keep_damaged(file, status.st_size)
        for number, (header, data) in enumerate(self._batches):
            position = header.position - base
            write_all(file.fd, data, position)
            if number + 1 < len(self._batches):
                hole = self._batches[number + 1][0].position - header.position - header.size_bytes
                if hole > 0:
                    write_all(file.fd, memoryview(bytes(hole)), position + header.size_bytes)
        os.utime(file.fd, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fdatasync(file.fd)
        # Only what the disk gives back counts.
        os.posix_fadvise(file.fd, self.from_offset - base, self.end_bytes, os.POSIX_FADV_DONTNEED)
        self.found = [
            one for one in walk(file.fd, base, self.walked_to, from_offset=self.walked_from) if isinstance(one, BatchHeader)
        ]
        there = [(one.position, one.crc) for one in self.found if self.from_offset <= one.position < self.to_offset]
        if there != [(header.position, header.crc) for header, _ in self._batches]:
            raise OSError(0, f"the disk does not give back what was written to {self._path} from offset {self.from_offset} on")
        sidecar_file.remove(self._folder, base)
        folders.sync(self._folder)

    def _keep_damaged(self, file: OpenFile, file_bytes: int) -> None:
        """Put the present bytes of the range on disk in the folder `aside`."""
        begin = self.from_offset - self.segment.base_offset
        self.aside.mkdir(exist_ok=True)
        folders.sync(self.aside.parent)
        kept = OpenFile(self.aside / file_name(self.from_offset), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        write_all(kept.fd, memoryview(os.pread(file.fd, max(0, min(self.end_bytes, file_bytes) - begin), begin)), 0)
        os.fsync(kept.fd)
        folders.sync(self.aside)


RepairJob = LogJob[SegmentRepair, Repaired]
