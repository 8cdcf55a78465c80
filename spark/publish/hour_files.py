"""What one hour's files are on both branches, against its proofs: what is late, what somebody removed, what is spoiled."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from pyiceberg.manifest import DataFile

from ..errors import WarehouseError
from ..warehouse.delete_files import DeleteFile, PathOf, Taken
from ..warehouse.file_rows import Rows, join_rows, read_file
from ..warehouse.proofs import AUDITED, COMPACTED, DIFFERS, NOT_PUBLISHED, REMOVED, Proof, ProvenFile, removed_rows
from ..warehouse.store import StorePath, checksum
from ..warehouse.topic_table import is_reloaded
from .gate import HourFacts
from .read_back import Facts, Touched, names_of, read_back, touched

Record = tuple[int, int]
"""Partition and offset."""


@dataclass(slots=True)
class HourFiles:
    """One hour. `facts` says what the gate needs; `add` and `remove` are what a publish would do to `main`."""

    hour: int
    facts: HourFacts
    main: list[DataFile]
    loads: list[DataFile]
    proof: Proof | None
    """The last revision; None: never published."""
    deletes: Sequence[DeleteFile] = ()
    """Delete files of others that take rows of `main`."""
    add: list[DataFile] = field(default_factory=list)
    remove: list[DataFile] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """Files that others removed from `main`: never added again."""
    change: str = ""
    """COMPACTED or REMOVED: what somebody has done to `main` since the last revision; empty: nothing."""
    touched: Touched = field(default_factory=Touched)
    """The same in numbers."""
    is_held_back: bool = False
    """Whether it has more to publish, once it is proven what others removed."""

    @property
    def after(self) -> list[DataFile]:
        """Return the hour's files on `main` once `add` and `remove` are done."""
        gone = {file.file_path for file in self.remove}
        return [file for file in self.main if file.file_path not in gone] + self.add

    @property
    def deletes_after(self) -> list[DeleteFile]:
        """Return the delete files that take rows of these. A file that is added again is younger than they are."""
        gone = {file.file_path for file in self.remove}
        return [replace(one, of=one.of - gone) for one in self.deletes if one.of - gone]


def examine(
    hour: int,
    loads: Sequence[DataFile],
    main: Sequence[DataFile],
    history: Sequence[Proof],
    counted: Facts,
    *,
    deletes: Sequence[DeleteFile] = (),
    differs: bool = False,
    is_restored: bool = False,
    rotten: Collection[str] = (),
    path_of: PathOf,
) -> HourFiles:
    """Return the hour as it stands. Files are read only where somebody touched them or a load wrote the same records again.

    `differs`: see `HourFacts`. `is_restored`: a person wants back what others removed. `rotten`: files that have other bytes than
    they had, whatever their size and time say.
    """
    proof = history[-1] if history else None
    is_published = proof is not None and proof.verdict not in NOT_PUBLISHED
    row_count = sum(file.record_count for file in loads)
    found = HourFiles(hour=hour, facts=HourFacts(hour=hour), main=list(main), loads=list(loads), proof=proof, deletes=deletes)
    spoiled = blocked = ""
    late_count, removed = 0, removed_rows(history)
    proven = {file.path: file for file in proof.files} if proof is not None and is_published else {}
    standing = names_of(main, deletes)
    if Counter(list(proven)) != standing:
        found.touched = _touched(proof, main, deletes, loads, path_of)
        found.change, spoiled = found.touched.change, found.touched.fault
        removed += found.touched.missing if found.change == REMOVED else 0
    elif proof is not None and proof.verdict == DIFFERS:
        found.change = COMPACTED
    for path in proven.keys() & standing.keys():
        spoiled = spoiled or _spoiled(proven[path], proof, path_of, is_rotten=str(path_of(path)) in rotten)
    gone = set(proof.gone) if proof is not None else set()
    gone |= (proven.keys() - standing.keys()) | _taken_of(deletes)
    if is_restored and not found.change:
        gone, removed = set(), 0
    found.gone = gone
    candidates = [file for file in loads if file.file_path not in proven and file.file_path not in gone]
    if found.change == REMOVED:
        found.is_held_back = bool(candidates)
        candidates = []  # first a proof of what is gone; the publish goes on from there
    is_given_back = is_restored and not found.change and bool(deletes)
    is_anew = is_published and any(map(is_reloaded, candidates))
    if is_anew:
        blocked = _TOUCHED if removed else ""
        candidates = [file for file in loads if file.file_path not in standing]
        found.remove = [file for file in main if file.file_path not in {one.file_path for one in loads}]
    elif is_given_back:
        late_count = row_count - (proof.row_count if proof is not None else 0)
        candidates, found.remove = list(loads), list(main)
    elif is_published and proof is not None and removed and _was_loaded_before(candidates, proof, counted, path_of):
        late_count, blocked = sum(file.record_count for file in candidates), _TOUCHED
    elif is_published and proof is not None and candidates and _may_overlap(candidates, proof, counted, path_of):
        late_count, known = _new_records(candidates, main, deletes, path_of)
        if known and late_count and gone:
            blocked = f"their files also hold published rows, and {_TOUCHED}"
        elif known and late_count:
            candidates, found.remove = list(loads), list(main)
        elif known:
            candidates = []
    else:
        late_count = sum(file.record_count for file in candidates)
        if not is_published and gone:
            blocked = _TOUCHED
    found.add = candidates
    after = read_back(found.after, found.deletes_after, counted, path_of) if found.add or found.remove else None
    if after is not None and after.fault:
        blocked = blocked or after.fault
    if removed and proof is not None and proof.verdict in AUDITED and not found.change:
        found.change = REMOVED  # a revision of before, which says more than readers get
    found.facts = HourFacts(
        hour=hour,
        row_count=row_count,
        late=late_count if is_published else 0,
        is_reloaded=is_anew,
        blocked=blocked,
        is_published=is_published or bool(main),
        is_counted=all(_is_counted(path_of(file), counted) for file in loads),
        differs=differs,
        spoiled=spoiled,
        removed=removed,
        after_count=after.row_count if after is not None else None,
        delete_files=len(deletes),
    )
    return found


_TOUCHED = "somebody had removed or rewritten its files on main: nothing is added again without `--restore HOUR`"


def _taken_of(deletes: Sequence[DeleteFile]) -> set[str]:
    """Return the data files that lost rows to delete files: added again, they would be younger, and hold the rows again."""
    return {path for one in deletes for path in one.of}


def _is_counted(path: StorePath, counted: Facts) -> bool:
    facts = counted.get(str(path))
    return facts is not None and facts.is_still(path)


def _spoiled(proven: ProvenFile, proof: Proof | None, path_of: PathOf, *, is_rotten: bool = False) -> str:
    """Return what is wrong with a published file; empty if its content is still what was proven."""
    assert proof is not None
    path = path_of(proven.path)
    try:
        now = path.stat()
        if now.st_size == proven.size_bytes and now.st_mtime_ns < proof.at_ms * 1_000_000 and not is_rotten:
            return ""
        if checksum(path) == proven.sha256:
            return ""
        facts, _ = read_file(path)
    except FileNotFoundError:
        return f"{path} is gone"
    except (OSError, WarehouseError) as error:
        return f"{path} cannot be read any more: {error}"
    if (facts.row_count, f"{facts.digest:032x}") == (proven.row_count, proven.digest):
        return ""
    return f"{path} is not the file that was proven: it had {proven.row_count} rows and has {facts.row_count}"


def _touched(
    proof: Proof | None, main: Sequence[DataFile], deletes: Sequence[DeleteFile], loads: Sequence[DataFile], path_of: PathOf
) -> Touched:
    """Return what somebody did to the hour on `main`."""
    if proof is None or proof.verdict in NOT_PUBLISHED:
        return Touched(fault="its files on main are named by no proof", stray=sum(file.record_count for file in main))
    return touched(proof, main, deletes, loads, path_of)


def _may_overlap(candidates: Sequence[DataFile], proof: Proof, counted: Facts, path_of: PathOf) -> bool:
    """Return whether the files may hold records that are published, from the first and last offsets alone."""
    proven = {one.partition: one for one in proof.offsets if one.row_count}
    for file in candidates:
        mine = counted.get(str(path_of(file)))
        if mine is None:
            return True
        for partition, (first, end, _) in mine.partitions.items():
            other = proven.get(partition)
            if other is not None and first < other.end_offset and other.first_offset < end:
                return True
    return False


def _was_loaded_before(candidates: Sequence[DataFile], proof: Proof, counted: Facts, path_of: PathOf) -> bool:
    """Return whether the files may hold records that had been loaded when the hour was proven last: they are not late."""
    facts = [counted.get(str(path_of(file))) for file in candidates]
    return any(
        first < proof.loaded_to(partition)
        for one in facts
        if one is not None
        for partition, (first, _, _) in one.partitions.items()
    )


def _new_records(
    candidates: Sequence[DataFile], main: Sequence[DataFile], deletes: Sequence[DeleteFile], path_of: PathOf
) -> tuple[int, int]:
    """Return how many records of `candidates` readers do not see yet, and how many they do."""
    seen, mine = _records(main, Taken(deletes, path_of), path_of), _records(candidates, Taken((), path_of), path_of)
    return len(mine - seen), len(mine & seen)


def _records(files: Iterable[DataFile], taken: Taken, path_of: PathOf) -> set[Record]:
    found: set[Record] = set()
    for file in files:
        rows = _rows_of(file, taken, path_of)
        if rows is not None:
            found |= set(zip(rows.partitions.tolist(), rows.offsets.tolist(), strict=True))
    return found


def _rows_of(file: DataFile, taken: Taken, path_of: PathOf) -> Rows | None:
    """Return the rows that readers get of a file; None: it cannot be read."""
    try:
        return taken.left(file.file_path, read_file(path_of(file))[1])
    except (OSError, WarehouseError):
        return None


class ReadersView:
    """The records that readers see of one hour: its files on `main`, read when first asked."""

    def __init__(self, hour: HourFiles, proof: Proof, path_of: PathOf) -> None:
        self._files = hour.main
        self._taken = Taken(hour.deletes, path_of)
        self._loads = hour.loads
        self._proof = proof
        self._path_of = path_of
        self._rows: Rows | None = None

    def count(self, partition: int, first_offset: int, count: int, /) -> int:
        if self._rows is None:
            parts = [_rows_of(file, self._taken, self._path_of) for file in self._files]
            self._rows = join_rows([rows for rows in parts if rows is not None])
        offsets = self._rows.offsets[self._rows.partitions == partition]
        return int(np.count_nonzero((offsets >= first_offset) & (offsets < first_offset + count)))

    def loaded_to(self, partition: int, /) -> int:
        return self._proof.loaded_to(partition)

    def has_own_files(self) -> bool:
        if {file.file_path for file in self._files} & {file.file_path for file in self._loads}:
            return False
        return not any(_spoiled(one, self._proof, self._path_of, is_rotten=True) for one in self._proof.files)
