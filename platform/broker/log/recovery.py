"""Opening what is on disk: every segment walked and verified, the torn tail cut, damage elsewhere noted and left alone.

A crash can leave a part of the last append, zeros where a power cut lost pages, an empty last segment of a roll, segments whose
deletion had begun. Ages are kept: a segment's last append is its file's mtime, put back after the cut. Source: rules of the log.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from ...wire.record_batch import BatchHeader
from . import first_append
from .bad_range import BadRange
from .batch_walk import NO_LIMIT, walk
from .folder import remove_leftovers, segment_bases, sync
from .producer_state import ProducerStates
from .segment import Segment, file_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What opening a log found and did."""

    segment_count: int
    batch_count: int
    cut_from_offset: int
    """Where the torn tail began; the log's end when there was none."""
    cut_bytes: int
    """What the last segment's file lost: 0 after a clean stop."""
    cut_reason: str | None
    bad_ranges: tuple[BadRange, ...]


def recover(folder: Path, *, producers: ProducerStates, index_interval_bytes: int) -> tuple[list[Segment], RecoveryReport]:
    """Return the folder's segments in order, the last one the active one and all of it on disk, and what was found.

    Fills `producers` in log order. No segments when the folder has none. Reads everything: about 1 s a GiB in the page cache.
    Raises OSError when something cannot be read: then nothing was cut.
    """
    remove_leftovers(folder)
    bases = segment_bases(folder)
    segments: list[Segment] = []
    batch_count, cut_bytes, cut_reason = 0, 0, None
    for base_offset, limit_offset in zip(bases, [*bases[1:], NO_LIMIT], strict=False):
        is_last = limit_offset == NO_LIMIT
        segment = Segment(folder / file_name(base_offset), base_offset, index_interval_bytes=index_interval_bytes)
        file = segment.open_for_append() if is_last else segment.file()
        status = os.fstat(file.fd)
        segment.first_append_ms = segment.last_append_ms = status.st_mtime_ns // 1_000_000
        for found in walk(file.fd, base_offset, limit_offset):
            if isinstance(found, BatchHeader):
                segment.found(found)
                producers.record(found, found.base_offset)
                batch_count += 1
            elif isinstance(found, BadRange):
                segment.found_bad(found)
            elif is_last:
                cut_reason = found.reason
            else:
                segment.found_bad(BadRange(found.from_offset, limit_offset, found.reason))
        if is_last:
            cut_bytes = status.st_size - segment.size_bytes
            if cut_bytes:
                _cut(file.fd, segment, status)
            _age_of_active(folder, segment, segments[-1] if segments else None)
        else:
            segment.let_go()
        segments.append(segment)
    for segment in segments:
        # After kill -9 the page cache still holds what the disk may not: from here on all that was found counts as flushed.
        os.fdatasync(segment.file().fd)
        segment.flushed_offset = segment.end_offset
        if segment is not segments[-1]:
            segment.let_go()
    sync(folder)
    return segments, RecoveryReport(
        segment_count=len(segments),
        batch_count=batch_count,
        cut_from_offset=segments[-1].end_offset if segments else 0,
        cut_bytes=cut_bytes,
        cut_reason=cut_reason,
        bad_ranges=tuple(bad for segment in segments for bad in segment.bad_ranges),
    )


def _cut(fd: int, segment: Segment, status: os.stat_result) -> None:
    os.ftruncate(fd, segment.size_bytes)
    os.utime(segment.path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _age_of_active(folder: Path, active: Segment, before: Segment | None) -> None:
    """Set when the active segment got its first append: as noted, else not before the last append of the segment before it."""
    noted_ms = first_append.read(folder, active.base_offset)
    if noted_ms is None and before is not None:
        noted_ms = before.last_append_ms
    if noted_ms is not None:
        active.first_append_ms = min(noted_ms, active.last_append_ms)
