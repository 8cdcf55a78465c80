"""Open a log's files: walk and verify what no sidecar describes, cut a torn tail, record other damage and leave it alone.

A crash can leave a part of the last append, zeros where a power cut lost pages, an empty last segment after a roll, and segments
whose deletion had begun. Ages are kept: the time of a segment's last append is its file's mtime, which is set back after a
change. When opening waits for the disk, or a flush had failed, bytes that may not be on disk are written again
(`rewrite_unflushed` says why). Source: rules of the log.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...wire.batch.record_batch import BatchHeader
from . import first_append, flush_mark, start_note
from . import folder as folders
from .folder import bases_among, remove_leftovers
from .log_format import refuse_format_1
from .preallocated_tail import is_unwritten
from .producer_state import ProducerStates
from .rewrite_unflushed import keep_times, put_on_disk
from .segment import sidecar_file
from .segment.bad_range import BadRange
from .segment.batch_walk import NO_LIMIT, walk
from .segment.segment import Segment
from .segment.segment_name import file_name
from .segment.sidecar import Sidecar


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What opening a log found and did."""

    segment_count: int
    batch_count: int
    """Batches that were walked."""
    checked_bytes: int
    """Bytes that were read and whose CRCs were checked."""
    left_bytes: int
    """Bytes taken over from sidecars: readers and the scrub check their CRCs later."""
    cut_from_offset: int
    """Where the torn tail began; the log end when there was none."""
    cut_bytes: int
    """How much was cut off the last segment's file, not counting mere zeros: 0 after a clean stop."""
    cut_reason: str | None
    bad_ranges: tuple[BadRange, ...]
    flushed_to: int = 0
    """Everything before this offset was known to be on disk when the opening began."""


class Recovered(NamedTuple):
    """The segments in order, the last one being the active one, and what was found."""

    segments: list[Segment]
    is_flushed: bool
    """Whether everything is known to be on disk, names included. False only when `flush` was not asked for."""
    start_offset: int
    """Where the log starts: the first segment's base or the noted start; 0 without segments."""
    report: RecoveryReport


def of_new_folder(*, flush: bool = True) -> Recovered:
    """Return what `recover` finds in an empty folder."""
    report = RecoveryReport(
        segment_count=0, batch_count=0, checked_bytes=0, left_bytes=0, cut_from_offset=0, cut_bytes=0, cut_reason=None,
        bad_ranges=(),
    )  # fmt: skip
    return Recovered([], flush, 0, report)


def recover(folder: Path, *, producers: ProducerStates, index_interval_bytes: int, flush: bool = True) -> Recovered:
    """Open the folder's segments, and fill `producers` as they were.

    Up to the end of the newest sidecar that names producers, segments are taken over from their sidecars, or left to the scrub
    when a sidecar is missing. What follows is walked and its CRCs are checked: about 0.5 s a GiB in the page cache, in batches of
    10 KB. Raises `OldFormat`, and OSError when something cannot be read: nothing was cut then.
    """
    names = set(remove_leftovers(folder))
    is_marked = flush_mark.NAME in names
    flush = flush or is_marked
    bases = bases_among(names)
    sidecar_file.remove_strays(folder, names, bases)
    if bases:
        refuse_format_1(folder / file_name(bases[0]), bases[0])
    limits = [*bases[1:], NO_LIMIT] if bases else []
    segments = [Segment(folder / file_name(base), base, index_interval_bytes=index_interval_bytes) for base in bases]
    sidecars = [
        sidecar_file.valid_one(folder, names, segment.base_offset, segment.file(), limit)
        for segment, limit in zip(segments, limits, strict=True)
    ]
    flushed_offset = max((sidecar.flushed_to for sidecar in sidecars if sidecar is not None), default=0)
    newest = _newest(sidecars)
    if flush:
        sound = put_on_disk(segments[: newest + 1], sidecars[: newest + 1], limits[: newest + 1], flushed_offset)
        if sound <= newest:
            for at in range(sound, len(segments)):
                sidecar_file.remove(folder, segments[at].base_offset)
                sidecars[at] = None
            newest = _newest(sidecars)
    if newest >= 0:
        producers.restore(sidecars[newest].producers)  # type: ignore[union-attr, arg-type]  # that is how it was chosen
    found = _Found()
    for at, (segment, sidecar, limit) in enumerate(zip(segments, sidecars, limits, strict=True)):
        status = _without_zeros_beyond(segment, limit)
        segment.first_append_ms = segment.last_append_ms = status.st_mtime_ns // 1_000_000
        if at >= newest:
            if at == newest and sidecar is not None:
                segment.adopt(sidecar)
            rewrites = flush and segment.base_offset + status.st_size > flushed_offset
            _walk_rest(segment, status, limit, producers, found, rewrites=rewrites)
        elif sidecar is not None and sidecar.size_bytes == status.st_size:
            segment.adopt(sidecar)
        elif status.st_size:
            segment.leave_unindexed(limit, status.st_size)
        found.left_bytes += len(segment.unverified)
        if limit == NO_LIMIT:
            _cut_tail(segment, status, found)
            noted_ms = first_append.read(folder, segment.base_offset) if first_append.NAME in names else None
            _age_of_active(noted_ms, segment, segments[at - 1] if at else None)
        segment.close_file()
    # A flush beyond a segment's base has put its name on disk. A segment that was only begun may have no name there.
    is_flushed = bool(bases) and bases[-1] < flushed_offset and all(each.end_offset <= flushed_offset for each in segments)
    if (flush and bases and not is_flushed) or start_note.NAME in names:
        folders.sync(folder)
    if flush and bases and not flushed_offset:
        folders.sync(folder.parent)
    if is_marked:
        flush_mark.remove(folder)
    for segment in segments:
        on_disk_to = segment.end_offset if flush else min(segment.end_offset, flushed_offset)
        segment.flushed_offset = max(segment.base_offset, on_disk_to)
    return Recovered(
        segments,
        flush or is_flushed,
        max(start_note.read(folder) or 0 if start_note.NAME in names else 0, bases[0] if bases else 0),
        RecoveryReport(
            segment_count=len(segments),
            batch_count=found.batch_count,
            checked_bytes=found.checked_bytes,
            left_bytes=found.left_bytes,
            cut_from_offset=segments[-1].end_offset if segments else 0,
            cut_bytes=found.cut_bytes,
            cut_reason=found.cut_reason,
            bad_ranges=tuple(bad for segment in segments for bad in segment.index.bad_ranges),
            flushed_to=flushed_offset,
        ),
    )


@dataclass(slots=True)
class _Found:
    """Sums over the segments."""

    batch_count: int = 0
    checked_bytes: int = 0
    left_bytes: int = 0
    cut_bytes: int = 0
    cut_reason: str | None = None


def _walk_rest(
    segment: Segment, status: os.stat_result, limit_offset: int, producers: ProducerStates, found: _Found, *, rewrites: bool
) -> None:
    """Walk what follows the part that `segment` knows already; write it again and flush it when `rewrites`."""
    found.checked_bytes += max(0, status.st_size - (segment.sidecar.indexed_to - segment.base_offset))
    if segment.end_offset - segment.base_offset >= status.st_size:
        return
    file = segment.open_for_append() if rewrites else segment.file()
    for what in walk(file.fd, segment.base_offset, limit_offset, from_offset=segment.end_offset, rewrites=rewrites):
        if isinstance(what, BatchHeader):
            segment.add_found(what)
            producers.record(what, what.base_offset)
            found.batch_count += 1
        elif isinstance(what, BadRange):
            segment.index.add_bad(what)
        elif limit_offset == NO_LIMIT:
            found.cut_reason = what.reason
        else:
            segment.index.add_bad(BadRange(what.from_offset, limit_offset, what.reason))
    if rewrites:
        keep_times(segment, status)
        os.fdatasync(file.fd)


def _without_zeros_beyond(segment: Segment, limit_offset: int) -> os.stat_result:
    """Cut off preallocated zeros that reach beyond the limit; return the file's status afterwards."""
    file = segment.file()
    status = os.fstat(file.fd)
    room = limit_offset - segment.base_offset
    if status.st_size > room and is_unwritten(file.fd, room):
        _cut(segment, room, status)
        return os.fstat(file.fd)
    return status


def _cut_tail(segment: Segment, status: os.stat_result, found: _Found) -> None:
    """Cut the file of the last segment back to its last whole batch."""
    if status.st_size > segment.size_bytes:
        if is_unwritten(segment.file().fd, segment.size_bytes):
            found.cut_reason = None
        else:
            found.cut_bytes = status.st_size - segment.size_bytes
        _cut(segment, segment.size_bytes, status)


def _newest(sidecars: Sequence[Sidecar | None]) -> int:
    """Return the index of the newest sidecar that names producers, -1 for none."""
    return max((at for at, sidecar in enumerate(sidecars) if sidecar is not None and sidecar.producers is not None), default=-1)


def _cut(segment: Segment, size_bytes: int, status: os.stat_result) -> None:
    os.truncate(segment.path, size_bytes)
    keep_times(segment, status)


def _age_of_active(noted_ms: int | None, active: Segment, before: Segment | None) -> None:
    """Set the time of the active segment's first append: the noted one, else the last append of the segment before it."""
    if noted_ms is None and before is not None:
        noted_ms = before.last_append_ms
    if noted_ms is not None:
        active.first_append_ms = min(noted_ms, active.last_append_ms)
