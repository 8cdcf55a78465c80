"""Write the sidecars of some segments, from copies of what the log has in memory."""

import os
from pathlib import Path
from typing import NamedTuple

from ....wire.batch.record_batch import HEADER_SIZE, BatchHeader, read_header
from ....wire.errors import CorruptBatch
from ..producer_state import Snapshot
from ..segment import boot_id, sidecar_file
from ..segment.bad_range import BadRange
from ..segment.batch_starts import BatchStarts
from ..segment.file_region import OpenFile
from ..segment.segment import Segment
from ..segment.sidecar import Sidecar
from .log_job import LogJob


class _Part(NamedTuple):
    """A segment as it is when the job is made."""

    segment: Segment
    generation: int
    file: OpenFile
    base_offset: int
    end_offset: int
    size_bytes: int
    flushed_offset: int
    first_append_ms: int
    last_append_ms: int
    starts: BatchStarts
    bad_ranges: tuple[BadRange, ...]
    producers: Snapshot | None


class CheckpointWork:
    """Writes one sidecar a segment. A failure changes nothing: sidecars are disposable."""

    __slots__ = ("_flushed_offset", "_folder", "_parts")

    def __init__(self, folder: Path, flushed_offset: int) -> None:
        """`flushed_offset` is the log's: a segment alone does not know whether the segments before it are on disk."""
        self._folder = folder
        self._flushed_offset = flushed_offset
        self._parts: list[_Part] = []

    def add(self, segment: Segment, producers: Snapshot | None) -> None:
        """Add `segment` as it is now; `producers` are those at its end. Raises OSError."""
        self._parts.append(
            _Part(
                segment=segment,
                generation=segment.sidecar.generation,
                file=segment.file(),
                base_offset=segment.base_offset,
                end_offset=segment.end_offset,
                size_bytes=segment.size_bytes,
                flushed_offset=min(segment.end_offset, self._flushed_offset),
                first_append_ms=segment.first_append_ms,
                last_append_ms=segment.last_append_ms,
                starts=segment.index.starts.copy(),
                bad_ranges=tuple(bad for bad in segment.index.bad_ranges if bad.from_offset < segment.end_offset),
                producers=producers,
            )
        )

    def __len__(self) -> int:
        return len(self._parts)

    def run(self) -> None:
        """Write the sidecars; waits for no disk. Raises OSError."""
        for part in self._parts:
            last = _last_batch(part)
            sidecar_file.write(
                self._folder,
                Sidecar(
                    base_offset=part.base_offset,
                    indexed_to=part.end_offset,
                    size_bytes=part.size_bytes,
                    flushed_to=part.flushed_offset,
                    inode=os.fstat(part.file.fd).st_ino,
                    boot_id=boot_id.current(),
                    first_append_ms=part.first_append_ms,
                    last_append_ms=part.last_append_ms,
                    last_batch_offset=last.position,
                    last_batch_crc=last.crc,
                    starts=part.starts,
                    bad_ranges=part.bad_ranges,
                    producers=part.producers,
                ),
            )

    def mark_segments(self) -> list[Segment]:
        """Set in the segments how far their sidecars reach, on the log's thread; return them."""
        current = [part for part in self._parts if part.generation == part.segment.sidecar.generation]
        for part in current:
            part.segment.sidecar.written(part.end_offset, is_flushed=part.flushed_offset >= part.end_offset)
        return [part.segment for part in current]


def _last_batch(part: _Part) -> BatchHeader:
    """Return the header of the last batch before `end_offset`. Raises OSError when it cannot be found any more."""
    bad_from = {bad.from_offset: bad.to_offset for bad in part.bad_ranges}
    offset = part.starts.last_at_or_before(part.end_offset)
    while True:
        offset = bad_from.get(offset, offset)
        try:
            header = read_header(os.pread(part.file.fd, HEADER_SIZE, offset - part.base_offset))
        except CorruptBatch as error:
            raise OSError(0, f"no sidecar is written for {part.segment.path}: {error}") from error
        if header.position != offset:
            raise OSError(0, f"no sidecar is written for {part.segment.path}: the header at offset {offset} has changed")
        if header.next_offset >= part.end_offset:
            return header
        offset = header.next_offset


CheckpointJob = LogJob[CheckpointWork, None]
