"""Opening what is on disk: what no sidecar tells is walked and verified, the torn tail cut, other damage noted and left alone.

A crash can leave a part of the last append, zeros where a power cut lost pages, an empty last segment of a roll, segments whose
deletion had begun. Ages are kept: a segment's last append is its file's mtime, put back after the cut. Source: rules of the log.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...wire.record_batch import BatchHeader
from . import first_append, sidecar_file, start_note
from . import folder as folders
from .bad_range import BadRange
from .batch_walk import NO_LIMIT, walk
from .file_slice import OpenFile
from .folder import bases_among, remove_leftovers
from .producer_state import ProducerStates
from .segment import Segment, file_name
from .spare import is_unwritten


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What opening a log found and did."""

    segment_count: int
    batch_count: int
    """Of those walked."""
    checked_bytes: int
    """How much was read and had its CRCs checked."""
    left_bytes: int
    """How much was taken over from sidecars: its CRCs are checked when it is read, and by the scrub."""
    cut_from_offset: int
    """Where the torn tail began; the log's end when there was none."""
    cut_bytes: int
    """What the last segment's file lost, zeros alone not counted: 0 after a clean stop."""
    cut_reason: str | None
    bad_ranges: tuple[BadRange, ...]


class Recovered(NamedTuple):
    """A log's segments in order, the last one the active one; what was found."""

    segments: list[Segment]
    is_flushed: bool
    """Whether all of it is known to be on disk. False only where `flush` was not asked for."""
    start_offset: int
    """Where the log starts: the first segment's base or what is noted; 0 without segments."""
    report: RecoveryReport


def recover(folder: Path, *, producers: ProducerStates, index_interval_bytes: int, flush: bool = True) -> Recovered:
    """Open the folder's segments. No segments when the folder has none.

    Fills `producers` as they were. What lies before the end of the newest sidecar that tells of producers is taken over from
    sidecars, or where one is missing left to the scrub; what lies after it is walked, CRCs and all: about 0.5 s a GiB in the page
    cache, in batches of 10 KB. Raises OSError when something cannot be read: then nothing was cut.
    """
    names = set(remove_leftovers(folder))
    bases = bases_among(names)
    sidecar_file.remove_strays(folder, names, bases)
    limits = [*bases[1:], NO_LIMIT] if bases else []
    segments = [Segment(folder / file_name(base), base, index_interval_bytes=index_interval_bytes) for base in bases]
    sidecars = [
        sidecar_file.believed(folder, names, segment.base_offset, segment.file(), limit)
        for segment, limit in zip(segments, limits, strict=True)
    ]
    newest = max((at for at, sidecar in enumerate(sidecars) if sidecar is not None and sidecar.producers is not None), default=-1)
    if newest >= 0:
        producers.restore(sidecars[newest].producers)  # type: ignore[union-attr, arg-type]  # that is how it was chosen
    found = _Found()
    for at, (segment, sidecar, limit) in enumerate(zip(segments, sidecars, limits, strict=True)):
        file = segment.file()
        status = os.fstat(file.fd)
        if status.st_size > limit - segment.base_offset and is_unwritten(file.fd, limit - segment.base_offset):
            _cut(segment.path, limit - segment.base_offset, status)
            status = os.fstat(file.fd)
        segment.first_append_ms = segment.last_append_ms = status.st_mtime_ns // 1_000_000
        if at < newest:
            if sidecar is not None and sidecar.size_bytes == status.st_size:
                segment.adopt(sidecar)
            elif status.st_size:
                segment.leave_unindexed(limit, status.st_size)
        else:
            if at == newest and sidecar is not None:
                segment.adopt(sidecar)
            _walk_rest(segment, file, limit, producers, found)
            found.checked_bytes += max(0, status.st_size - (segment.described_to - segment.base_offset))
        found.left_bytes += segment.suspect_to - segment.suspect_from
        if limit == NO_LIMIT:
            if status.st_size > segment.size_bytes:
                if is_unwritten(file.fd, segment.size_bytes):
                    found.cut_reason = None
                else:
                    found.cut_bytes = status.st_size - segment.size_bytes
                _cut(segment.path, segment.size_bytes, status)
            noted_ms = first_append.read(folder, segment.base_offset) if first_append.NAME in names else None
            _age_of_active(noted_ms, segment, segments[at - 1] if at else None)
        segment.let_go()
    flushed_offset = max((sidecar.flushed_to for sidecar in sidecars if sidecar is not None), default=0)
    is_flushed = _flush(folder, segments, flushed_offset, flush)
    return Recovered(
        segments,
        is_flushed,
        max(start_note.read(folder) or 0 if start_note.NAME in names else 0, bases[0] if bases else 0),
        RecoveryReport(
            segment_count=len(segments),
            batch_count=found.batch_count,
            checked_bytes=found.checked_bytes,
            left_bytes=found.left_bytes,
            cut_from_offset=segments[-1].end_offset if segments else 0,
            cut_bytes=found.cut_bytes,
            cut_reason=found.cut_reason,
            bad_ranges=tuple(bad for segment in segments for bad in segment.bad_ranges),
        ),
    )


@dataclass(slots=True)
class _Found:
    """What adds up over the segments."""

    batch_count: int = 0
    checked_bytes: int = 0
    left_bytes: int = 0
    cut_bytes: int = 0
    cut_reason: str | None = None


def _walk_rest(segment: Segment, file: OpenFile, limit_offset: int, producers: ProducerStates, found: _Found) -> None:
    """Take in what follows what `segment` knows already."""
    if segment.end_offset - segment.base_offset >= os.fstat(file.fd).st_size:
        return
    for what in walk(file.fd, segment.base_offset, limit_offset, from_offset=segment.end_offset):
        if isinstance(what, BatchHeader):
            segment.found(what)
            producers.record(what, what.base_offset)
            found.batch_count += 1
        elif isinstance(what, BadRange):
            segment.found_bad(what)
        elif limit_offset == NO_LIMIT:
            found.cut_reason = what.reason
        else:
            segment.found_bad(BadRange(what.from_offset, limit_offset, what.reason))


def _flush(folder: Path, segments: list[Segment], flushed_offset: int, flush: bool) -> bool:
    """Take note of what is on disk, and put the rest there when asked; return whether all is."""
    is_flushed = True
    for segment in segments:
        segment.flushed_offset = max(segment.base_offset, min(segment.end_offset, flushed_offset))
        if not segment.is_flushed:
            # After kill -9 the page cache holds what the disk may not.
            is_flushed = False
            if flush:
                file = segment.file()
                os.fdatasync(file.fd)
                segment.flushed_offset = segment.end_offset
                segment.let_go()
    if flush and (not is_flushed or not flushed_offset):
        folders.sync(folder)
    return flush or is_flushed


def _cut(path: Path, size_bytes: int, status: os.stat_result) -> None:
    os.truncate(path, size_bytes)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _age_of_active(noted_ms: int | None, active: Segment, before: Segment | None) -> None:
    """Set when the active segment got its first append: as noted, else not before the last append of the segment before it."""
    if noted_ms is None and before is not None:
        noted_ms = before.last_append_ms
    if noted_ms is not None:
        active.first_append_ms = min(noted_ms, active.last_append_ms)
