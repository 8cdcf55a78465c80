"""What readers of `main` get of one hour, from its files: is a file or a record there twice, and what did others change?

Manifests and what the count has read of each file are enough while others have not touched the hour. Files whose offsets
overlap are read for two columns, file by file. Files that others wrote are read whole, one after another: their digest is
compared. Rows that a delete file takes are not there.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from pyiceberg.manifest import DataFile

from ..errors import WarehouseError
from ..source.digest import MODULUS
from ..warehouse.delete_files import DeleteFile, PathOf, Taken
from ..warehouse.file_rows import FileFacts, Numbers, read_file, read_offsets
from ..warehouse.proofs import COMPACTED, REMOVED, Proof

Facts = Mapping[str, FileFacts]
"""Path of a file → what the count has read of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """The files of one hour, taken together."""

    row_count: int = 0
    doubled: int = 0
    """Rows that are there once too often."""
    fault: str = ""
    """Why readers would not get each record once, in words; empty: they would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What others did to the published files of an hour."""

    change: str = ""
    """COMPACTED or REMOVED; empty: something that no proof covers."""
    fault: str = ""
    missing: int = 0
    doubled: int = 0
    stray: int = 0
    """Rows that are neither of the proven files nor of the branch `loads`."""


def read_back(files: Sequence[DataFile], deletes: Sequence[DeleteFile], counted: Facts, path_of: PathOf) -> ReadBack:
    """Return what a reader would get of these files."""
    rows, taken = sum(file.record_count for file in files), Taken(deletes, path_of)
    again = doubled_paths(files)
    if again:
        doubled = sum(file.record_count for file in again)
        return ReadBack(row_count=rows, doubled=doubled, fault=_twice(again, rows, rows - doubled))
    try:
        rows += sum(one.row_count for one in taken.facts(file.file_path for file in files).values())
        doubled = _doubled(_overlapping(files, counted, path_of), taken, path_of)
    except (OSError, WarehouseError) as error:
        return ReadBack(row_count=rows, fault=str(error))
    fault = f"{doubled} records are in more than one of its files" if doubled else ""
    return ReadBack(row_count=rows, doubled=doubled, fault=fault)


def doubled_paths(files: Iterable[DataFile]) -> list[DataFile]:
    """Return the entries of files that were named before, one for each time too often."""
    seen: set[str] = set()
    found = []
    for file in files:
        if file.file_path in seen:
            found.append(file)
        seen.add(file.file_path)
    return found


def _twice(again: Sequence[DataFile], rows: int, records: int) -> str:
    names = Counter(file.file_path for file in again)
    first = next(iter(names))
    more = f", and so are {len(names) - 1} other files" if len(names) > 1 else ""
    return f"{first} is there {names[first] + 1} times{more}: {rows} rows of {records}"


def _overlapping(files: Sequence[DataFile], counted: Facts, path_of: PathOf) -> list[str]:
    """Return the files that have offsets between those of another one, in a partition."""
    spans: dict[int, list[tuple[int, int, str]]] = {}
    for file in files:
        path = path_of(file)
        facts = counted.get(str(path))
        if facts is None or not facts.is_still(path):
            facts = read_file(path)[0]
        for partition, (first, end, _) in facts.partitions.items():
            spans.setdefault(partition, []).append((first, end, file.file_path))
    found: set[str] = set()
    for mine in spans.values():
        last_end, last = -1, ""
        for first, end, path_name in sorted(mine):
            if first < last_end:
                found |= {last, path_name}
            if end > last_end:
                last_end, last = end, path_name
    return sorted(found)


def _doubled(paths: Sequence[str], taken: Taken, path_of: PathOf) -> int:
    """Return how many rows of these files have the offset of another row."""
    offsets: dict[int, list[Numbers]] = {}
    for path in paths:
        for partition, mine in read_offsets(path_of(path), partial(taken.mask, path)).items():
            offsets.setdefault(partition, []).append(mine)
    return sum(_once_too_often(np.concatenate(mine)) for mine in offsets.values())


def _once_too_often(offsets: Numbers) -> int:
    return len(offsets) - len(np.unique(offsets))


def names_of(main: Iterable[DataFile], deletes: Iterable[DeleteFile]) -> Counter[str]:
    """Return what the branch `main` names of an hour, as a proof names it: delete files, too."""
    return Counter([*(file.file_path for file in main), *(one.path for one in deletes)])


def touched(
    proof: Proof, main: Sequence[DataFile], deletes: Sequence[DeleteFile], loads: Sequence[DataFile], path_of: PathOf
) -> Touched:
    """Return what others did to the files of the hour on `main`, which are not those of `proof`."""
    taken = Taken(deletes, path_of)
    try:
        rows, digest, offsets = 0, 0, dict[int, list[Numbers]]()
        for file in main:
            mine = taken.left(file.file_path, read_file(path_of(file))[1])
            rows, digest = rows + len(mine), (digest + mine.hashes.total()) % MODULUS
            for partition in map(int, np.unique(mine.partitions)):
                offsets.setdefault(partition, []).append(mine.offsets[mine.partitions == partition])
    except (OSError, WarehouseError) as error:
        return Touched(fault=f"its files on main cannot be read: {error}")
    again = doubled_paths(main)
    if not again and (rows, f"{digest:032x}") == (proof.row_count, proof.digest):
        return Touched(change=COMPACTED)
    standing = {partition: np.unique(np.concatenate(mine)) for partition, mine in offsets.items()}
    doubled = rows - sum(map(len, standing.values()))
    known, known_digest = _among({file.path for file in proof.files} | {file.file_path for file in loads}, standing, path_of)
    stray, missing = rows - doubled - known, max(0, proof.row_count - known)
    if not doubled and not stray and missing and known_digest == digest:
        return Touched(change=REMOVED, missing=missing)
    if again:
        words = _twice(again, rows, rows - doubled)
    elif doubled:
        words = f"another program added {doubled} rows to main that were already there"
    else:
        words = "another program added rows to main that are in no proof"
    words += f"; {stray} of its rows are of no load" if stray else ""
    words += f"; {missing} of {proof.row_count} proven rows are not there" if missing else ""
    words += "; their content differs" if not (doubled or stray) and known_digest != digest else ""
    return Touched(fault=words, missing=missing, doubled=doubled, stray=stray)


def _among(paths: Iterable[str], standing: Mapping[int, Numbers], path_of: PathOf) -> tuple[int, int]:
    """Return how many of the standing records these files hold, and the digest of those, each record once."""
    found = {partition: np.zeros(len(offsets), np.bool_) for partition, offsets in standing.items()}
    digest = 0
    for path in sorted(set(paths)):
        try:
            rows = read_file(path_of(path))[1]
        except FileNotFoundError:
            continue  # a file that a compaction has replaced
        except WarehouseError:
            continue  # a damaged one proves nothing
        for partition, offsets in standing.items():
            mine = rows.where(rows.partitions == partition)
            at = np.searchsorted(offsets, mine.offsets)
            at[at == len(offsets)] = 0
            is_new = (offsets[at] == mine.offsets) & ~found[partition][at] if len(offsets) else np.zeros(len(mine), np.bool_)
            is_new[is_new] = _firsts(at[is_new])
            digest = (digest + mine.where(is_new).hashes.total()) % MODULUS
            found[partition][at[is_new]] = True
    return sum(int(one.sum()) for one in found.values()), digest


def _firsts(values: Numbers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which values occur for the first time."""
    is_first = np.zeros(len(values), np.bool_)
    is_first[np.unique(values, return_index=True)[1]] = True
    return is_first
