"""Is this folder a sound log? Its invariants, checked on the files alone, nothing changed. For tests and copied folders.

Knows nothing of the log's memory: it walks what is on disk, as recovery would, and says what recovery would have to deal with.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ...wire.record_batch import BatchHeader
from . import first_append
from .bad_range import BadRange
from .batch_walk import NO_LIMIT, walk
from .file_slice import OpenFile
from .folder import segment_bases
from .segment import DELETED_SUFFIX, file_name


class ProblemKind(Enum):
    """What can be wrong, from harmless to harm."""

    LEFTOVER = "a segment whose deletion had begun"
    STRANGER = "a file that is no part of a log"
    GAP = "offsets between two segments that hold nothing (a mirror's source had lost them, or a file is missing)"
    BEYOND_LIMIT = "bytes after the last batch of a segment, where the next one begins"
    TORN_TAIL = "bytes after the last whole batch of the log"
    BAD_RANGE = "damage with whole batches or segments behind it"
    NO_SEGMENT = "no segment at all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong. Offsets are half-open and None where the problem has none."""

    kind: ProblemKind
    path: Path
    from_offset: int | None = None
    to_offset: int | None = None
    reason: str = ""

    def __str__(self) -> str:
        where = "" if self.from_offset is None else f" from {self.from_offset} to {self.to_offset}"
        return f"{self.path}{where}: {self.kind.value}" + (f": {self.reason}" if self.reason else "")


def check(folder: Path) -> list[Problem]:
    """Return every problem of the log in `folder`, in the order of offsets; none for a log that was closed in good order.

    Reads everything, changes nothing. Raises OSError when a file cannot be read.
    """
    problems = _strange_files(folder)
    bases = segment_bases(folder)
    if not bases:
        problems.append(Problem(kind=ProblemKind.NO_SEGMENT, path=folder))
    for base_offset, limit_offset in zip(bases, [*bases[1:], NO_LIMIT], strict=False):
        problems += _check_segment(folder / file_name(base_offset), base_offset, limit_offset)
    return problems


def _strange_files(folder: Path) -> list[Problem]:
    segments = {file_name(base_offset) for base_offset in segment_bases(folder)}
    problems = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(DELETED_SUFFIX):
            problems.append(Problem(kind=ProblemKind.LEFTOVER, path=folder / name))
        elif name not in segments and name != first_append.NAME:
            problems.append(Problem(kind=ProblemKind.STRANGER, path=folder / name))
    return problems


def _check_segment(path: Path, base_offset: int, limit_offset: int) -> Sequence[Problem]:
    problems: list[Problem] = []
    is_last = limit_offset == NO_LIMIT
    file = OpenFile(path, os.O_RDONLY)
    file_end = base_offset + os.fstat(file.fd).st_size
    end_offset = end_of_bytes = base_offset
    for found in walk(file.fd, base_offset, limit_offset):
        if isinstance(found, BatchHeader):
            end_offset = found.next_offset
            end_of_bytes = found.base_offset + found.size_bytes
            continue
        if isinstance(found, BadRange):
            kind, end_offset = ProblemKind.BAD_RANGE, found.to_offset
        elif is_last:
            kind, end_offset = ProblemKind.TORN_TAIL, file_end
        else:
            kind, end_offset = ProblemKind.BAD_RANGE, limit_offset
        end_of_bytes = end_offset
        problems.append(Problem(kind=kind, path=path, from_offset=found.from_offset, to_offset=end_offset, reason=found.reason))
    if end_of_bytes < file_end:
        kind = ProblemKind.TORN_TAIL if is_last else ProblemKind.BEYOND_LIMIT
        problems.append(Problem(kind=kind, path=path, from_offset=end_of_bytes, to_offset=file_end))
    if not is_last and end_offset < limit_offset:
        problems.append(Problem(kind=ProblemKind.GAP, path=path, from_offset=end_offset, to_offset=limit_offset))
    return problems
