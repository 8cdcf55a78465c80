"""Check the invariants of a log on its files alone. Changes nothing. For `headrace log check`, tests and copied folders.

It walks the segments as recovery without sidecars would, and reports what recovery would find. Then it compares the walk with
everything else in the folder: sidecars, the note of the log start, producers' sequences, times.
"""

import os
from collections.abc import Callable
from pathlib import Path

from ....wire.batch.record_batch import TIMESTAMPS_BOUNDED, BatchHeader
from .. import first_append, flush_mark, leader_epochs, start_note, topic_note
from ..folder import segment_bases
from ..preallocated_tail import is_unwritten
from ..segment import sidecar_file
from ..segment.bad_range import BadRange
from ..segment.batch_walk import NO_LIMIT, Unresolved, walk
from ..segment.file_region import OpenFile
from ..segment.segment_name import DELETED_SUFFIX, file_name
from .check_producers import ProducerSequences
from .check_sidecar import SidecarCheck
from .problem import Problem, ProblemKind

__all__ = ["Problem", "ProblemKind", "check"]

Progress = Callable[[int], None]
"""Called with the number of further bytes that were checked."""


def check(folder: Path, *, progress: Progress = lambda size_bytes: None) -> list[Problem]:
    """Return every problem of the log in `folder`, in the order of offsets; none for a log that was closed cleanly.

    Reads everything, changes nothing. Raises OSError when a file cannot be read.
    """
    problems = _strange_files(folder)
    bases = segment_bases(folder)
    if not bases:
        problems.append(Problem(kind=ProblemKind.NO_SEGMENT, path=folder))
    sequences = ProducerSequences()
    log_end_offset = 0
    for base_offset, limit_offset in zip(bases, [*bases[1:], NO_LIMIT] if bases else [], strict=True):
        one = _SegmentCheck(folder, base_offset, limit_offset, sequences)
        problems += one.run(progress)
        log_end_offset = one.end_offset
    return problems + _start_note(folder, bases, log_end_offset)


NOTES = (first_append.NAME, start_note.NAME, flush_mark.NAME, topic_note.NAME, leader_epochs.NAME)
"""The small files beside the segments."""


def _strange_files(folder: Path) -> list[Problem]:
    bases = segment_bases(folder)
    segments = {file_name(base_offset) for base_offset in bases}
    sidecars = {
        sidecar_file.path_of(folder, base_offset, suffix).name for base_offset in bases for suffix in sidecar_file.SUFFIXES
    }
    problems = []
    for name in sorted(os.listdir(folder)):
        if name in segments or name in sidecars or name in NOTES:
            continue
        is_scratch = name in (start_note.SCRATCH, leader_epochs.SCRATCH) or sidecar_file.is_name(
            name.removesuffix(sidecar_file.SCRATCH_SUFFIX)
        )
        is_leftover = is_scratch or name.endswith(DELETED_SUFFIX)
        kind = ProblemKind.LEFTOVER if is_leftover else ProblemKind.STRANGER
        problems.append(Problem(kind=kind, path=folder / name))
    return problems


def _start_note(folder: Path, bases: list[int], log_end_offset: int) -> list[Problem]:
    path = folder / start_note.NAME
    if start_note.is_damaged(folder):
        return [Problem(kind=ProblemKind.START_NOTE, path=path, reason="it cannot be read")]
    noted = start_note.read(folder)
    if noted is not None and bases and noted > log_end_offset:
        reason = f"it says {noted}, and the log ends at {log_end_offset}"
        return [Problem(kind=ProblemKind.START_NOTE, path=path, reason=reason)]
    return []


class _SegmentCheck:
    """One segment, walked once."""

    def __init__(self, folder: Path, base_offset: int, limit_offset: int, sequences: ProducerSequences) -> None:
        self.end_offset = base_offset
        self._path = folder / file_name(base_offset)
        self._base_offset = base_offset
        self._limit_offset = limit_offset
        self._is_last = limit_offset == NO_LIMIT
        self._sequences = sequences
        self._file = OpenFile(self._path, os.O_RDONLY)
        self._file_end = base_offset + os.fstat(self._file.fd).st_size
        self._end_of_bytes = base_offset
        self._sidecars = [
            SidecarCheck(path, self._file.fd, limit_offset)
            for suffix in sidecar_file.SUFFIXES
            if (path := sidecar_file.path_of(folder, base_offset, suffix)).exists()
        ]
        self._problems: list[Problem] = []

    def run(self, progress: Progress) -> list[Problem]:
        reported = self._base_offset
        for found in walk(self._file.fd, self._base_offset, self._limit_offset):
            if isinstance(found, BatchHeader):
                self._whole(found)
            else:
                self._damaged(found)
            if self.end_offset - reported >= 1 << 24:
                progress(self.end_offset - reported)
                reported = self.end_offset
        progress(max(0, self._file_end - reported))
        if self._end_of_bytes < self._file_end and not is_unwritten(self._file.fd, self._end_of_bytes - self._base_offset):
            self._found(
                ProblemKind.TORN_TAIL if self._is_last else ProblemKind.BEYOND_LIMIT,
                self._end_of_bytes,
                self._file_end,
                "no batch begins there",
            )
        if not self._is_last and self.end_offset < self._limit_offset:
            self._found(ProblemKind.GAP, self.end_offset, self._limit_offset, "")
            self._sequences.lose()
        for sidecar in self._sidecars:
            self._problems += sidecar.problems(self._sequences)
        return self._problems

    def _whole(self, header: BatchHeader) -> None:
        offset, end_of_bytes = header.position, header.position + header.size_bytes
        reason = self._sequences.take(header)
        if reason is not None:
            self._found(ProblemKind.SEQUENCE, offset, header.next_offset, reason)
        reason = _wrong_times(header)
        if reason is not None:
            self._found(ProblemKind.TIMESTAMP, offset, header.next_offset, reason)
        hole_end = min(header.next_offset, self._file_end)
        if end_of_bytes < hole_end and not _is_empty(self._file.fd, end_of_bytes - self._base_offset, hole_end - end_of_bytes):
            self._found(ProblemKind.HOLE_NOT_EMPTY, end_of_bytes, hole_end, f"the hole after the batch at offset {offset}")
        for sidecar in self._sidecars:
            sidecar.whole(header)
        self.end_offset, self._end_of_bytes = header.next_offset, end_of_bytes

    def _damaged(self, found: BadRange | Unresolved) -> None:
        if isinstance(found, BadRange):
            kind, to_offset = ProblemKind.BAD_RANGE, found.to_offset
        elif self._is_last:
            if is_unwritten(self._file.fd, found.from_offset - self._base_offset):
                return
            kind, to_offset = ProblemKind.TORN_TAIL, self._file_end
        else:
            kind, to_offset = ProblemKind.BAD_RANGE, self._limit_offset
        self._found(kind, found.from_offset, to_offset, found.reason)
        self._sequences.lose()
        for sidecar in self._sidecars:
            sidecar.damaged(BadRange(found.from_offset, to_offset, found.reason))
        self._end_of_bytes = to_offset
        if kind is not ProblemKind.TORN_TAIL:
            self.end_offset = to_offset

    def _found(self, kind: ProblemKind, from_offset: int, to_offset: int, reason: str) -> None:
        self._problems.append(
            Problem(
                kind=kind,
                path=self._path,
                from_offset=from_offset,
                to_offset=to_offset,
                position=from_offset - self._base_offset,
                reason=reason,
            )
        )


def _wrong_times(header: BatchHeader) -> str | None:
    if header.max_timestamp_ms < -1:
        return f"the batch at offset {header.position} has the largest timestamp {header.max_timestamp_ms}, before 1970"
    if header.attributes & TIMESTAMPS_BOUNDED and not header.timestamps_bounded:
        promised = f"times from {header.base_timestamp_ms} to {header.max_timestamp_ms}"
        return f"the batch at offset {header.position} promises {promised}, which is not a range"
    return None


def _is_empty(fd: int, position: int, length: int) -> bool:
    """Return whether a hole holds zeros only, reading its data alone."""
    end = position + length
    while position < end:
        try:
            position = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:
            return True  # ENXIO: only a hole follows
        if position >= end:
            return True
        part = os.pread(fd, min(1 << 20, end - position), position)
        if not part or part.count(0) != len(part):
            return not part
        position += len(part)
    return True
