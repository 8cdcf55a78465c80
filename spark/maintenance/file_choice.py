"""Which files of an hour a compaction merges. Pure: what is on both branches and in the proofs in, groups of files out.

A file of a published hour is on both branches. Files that wait on `loads` for their hour to be extended stay as they are, and
so does any change by others on `main` until a publish has taken note: a path that was removed there must not come back under
another name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from pyiceberg.manifest import DataFile

from ..warehouse.hours import BEFORE_1970
from ..warehouse.proofs import NOT_PUBLISHED, Proof

HOUR_MS = 3_600_000
MOST_FILE_ROWS = 4_000_000
"""A count or a check holds the numbers of one file's rows, 40 bytes each."""
SMALL = 0.75
"""A file below this part of the target size is merged, as in Iceberg's own `rewrite_data_files`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Files of one hour to be merged."""

    hour: int
    loads: Sequence[DataFile]
    """They go from the branch `loads`."""
    main: Sequence[DataFile]
    """They go from `main`, and hold the same rows; empty: the hour is not published."""
    proof: Proof | None

    @property
    def size_bytes(self) -> int:
        return sum(file.file_size_in_bytes for file in self.loads)


def is_closed(hour: int, *, now_ms: int, after_ms: int) -> bool:
    """Return whether the hour has ended so long ago."""
    return (hour + 1) * HOUR_MS + after_ms <= now_ms


def choose(
    hour: int,
    loads: Sequence[DataFile],
    main: Sequence[DataFile],
    history: Sequence[Proof],
    *,
    target_bytes: int,
    min_files: int,
) -> Choice | None:
    """Return what of the hour is to be merged; None: nothing."""
    if hour == BEFORE_1970:
        return None  # rows of many hours, and a file holds those of one
    proof = history[-1] if history else None
    is_published = proof is not None and proof.verdict not in NOT_PUBLISHED
    if not is_published:
        if main or (proof is not None and proof.gone):
            return None
        return _worth_it(Choice(hour=hour, loads=_small(loads, target_bytes), main=(), proof=None), target_bytes, min_files)
    assert proof is not None
    standing = {file.file_path for file in main}
    if {file.path for file in proof.files} != standing:
        return None  # changed by others: the next publish must note it first
    both = [file for file in loads if file.file_path in standing]
    if len(both) < len(main) and _may_be_the_same(loads, main, proof):
        # A branch was rolled back over a compaction: the same rows, in other files. They are compared before they are replaced.
        return Choice(hour=hour, loads=list(loads), main=list(main), proof=proof)
    small = _small(both, target_bytes)
    return _worth_it(Choice(hour=hour, loads=small, main=small, proof=proof), target_bytes, min_files)


def _small(files: Sequence[DataFile], target_bytes: int) -> list[DataFile]:
    return [file for file in files if file.file_size_in_bytes < SMALL * target_bytes]


def _worth_it(choice: Choice, target_bytes: int, min_files: int) -> Choice | None:
    count, rows = len(choice.loads), sum(file.record_count for file in choice.loads)
    after = max(ceil(choice.size_bytes / target_bytes), ceil(rows / MOST_FILE_ROWS))
    return choice if count >= max(2, min_files) and after < count else None


def _may_be_the_same(loads: Sequence[DataFile], main: Sequence[DataFile], proof: Proof) -> bool:
    rows = {sum(file.record_count for file in files) for files in (loads, main)}
    return rows == {proof.row_count}
