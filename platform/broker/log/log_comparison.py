"""What a replica's log gives to a comparison with the others, and takes from it: ranges, digests, damage, repairs."""

from collections.abc import Sequence
from pathlib import Path

from ...wire.batch.record_batch import BatchHeader, crc_matches, iter_batches
from ...wire.errors import CorruptBatch
from .errors import LogError
from .jobs.log_job import LogJob
from .jobs.segment_repair import Repaired, RepairJob, SegmentRepair
from .log_name import LogName
from .log_scrub import LogScrub
from .segment.bad_range import BadRange
from .segment.range_digest import Part
from .segments import Segments


class RepairRefused(ValueError):
    """These bytes are not what was damaged. The message says why."""


class LogComparison:
    """Lives on the log's thread."""

    __slots__ = ("_name", "_scrub", "_segments")

    def __init__(self, name: LogName, segments: Segments, scrub: LogScrub) -> None:
        self._name, self._segments, self._scrub = name, segments, scrub

    def next_range(self, offset: int, most: int, up_to_offset: int) -> tuple[int, int] | None:
        """Return the next whole batches of closed segments at or behind `offset` and before `up_to_offset`, as a half-open range
        of about `most` offsets; None for none. A segment without an index is left out: it is read first. So is the part in which
        the log's start is: the others need not have what is before the start.
        """
        segments = self._segments
        for segment in segments.listed_from(max(offset, segments.start_offset)):
            if segment is segments.active or segment.base_offset >= up_to_offset:
                return None
            begin = max(offset, segment.base_offset)
            end = max([segment.end_offset, *(bad.to_offset for bad in segment.index.bad_ranges)])
            if begin >= end or not segment.index.is_complete or not len(segment.index.starts):
                continue
            if begin < segments.start_offset:
                first = segment.index.starts.first_after(segments.start_offset - 1)
                if first is None:
                    continue
                begin = first
            elif begin > segment.base_offset:
                begin = segment.index.starts.last_at_or_before(begin)
            if begin + most >= end <= up_to_offset:
                return begin, end
            to = segment.index.starts.last_at_or_before(min(begin + most, up_to_offset))
            if to <= begin:
                after = segment.index.starts.first_after(begin)
                to = end if after is None else after
            return None if to > up_to_offset else (begin, to)
        return None

    def parts(self, from_offset: int, to_offset: int) -> list[Part] | None:
        """Return what `digest_of` reads for this range; None where the log does not hold all of it. Raises OSError."""
        segments = self._segments
        if from_offset < segments.start_offset or to_offset > segments.active.end_offset:
            return None
        found: list[Part] = []
        for segment in segments.listed_from(from_offset):
            if segment.base_offset >= to_offset:
                break
            end = max([segment.end_offset, *(bad.to_offset for bad in segment.index.bad_ranges)])
            begin, end = max(from_offset, segment.base_offset), min(to_offset, end)
            if begin < end:
                known = [bad for bad in segment.index.bad_ranges if bad.from_offset < end and begin < bad.to_offset]
                found.append(Part(segment.file(), segment.base_offset, begin, end, known))
        return found

    def note_bad(self, bad: BadRange) -> bool:
        """Serve this range no more, until it is repaired. Return whether it was not known."""
        segments = self._segments
        if not segments.start_offset <= bad.from_offset < bad.to_offset <= segments.active.end_offset:
            return False
        return segments.holding(bad.from_offset).index.add_bad(bad)

    def repair_job(self, bad: BadRange, data: memoryview, aside: Path) -> RepairJob:
        """Return what writes the batches in `data` over the begin of `bad`. Raises `RepairRefused`, `FolderFault`.

        Where the log's start is inside the range, the batches may begin with the one that holds the start: what is before it is
        deleted, and no other replica may have it.
        """
        batches: list[tuple[BatchHeader, memoryview]] = []
        offset = bad.from_offset
        try:
            for header, batch in iter_batches(data):
                if header.position >= bad.to_offset:
                    break
                if not batches and offset < header.position <= self._segments.start_offset:
                    offset = header.position
                if header.position != offset or not header.is_dense or not crc_matches(batch, 0, header.size_bytes):
                    raise RepairRefused(f"the batch at {header.position} is not the whole one that belongs at {offset}")
                batches.append((header, memoryview(batch)))
                offset = header.next_offset
        except CorruptBatch as error:
            raise RepairRefused(str(error)) from error
        if not batches or offset > bad.to_offset:
            raise RepairRefused(f"its batches end at {offset}, and the damage is from {bad.from_offset} to {bad.to_offset}")
        segment = self._segments.holding(bad.from_offset)
        try:
            work = SegmentRepair(self._name.folder, segment, batches, aside)
        except OSError as error:
            raise self._name.fault(error) from error
        return LogJob(work, done=self._done, failed=self._failed)

    def _done(self, work: SegmentRepair) -> Repaired:
        segment = work.segment
        segment.repaired(work.found, work.from_offset, work.to_offset, work.walked_to)
        self._scrub.begin_again(segment)
        if segment is not self._segments.active:
            self._segments.unindexed.add(segment)
        return Repaired(work.from_offset, work.to_offset, work.record_count)

    def _failed(self, work: SegmentRepair, error: OSError) -> LogError:
        return self._name.fault(error)


def damage_between(bad_ranges: Sequence[BadRange], from_offset: int, to_offset: int) -> BadRange | None:
    """Return the first damage that overlaps the range."""
    return next((bad for bad in bad_ranges if bad.from_offset < to_offset and from_offset < bad.to_offset), None)
