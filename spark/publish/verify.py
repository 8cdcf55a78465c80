"""Recomputes every proof of a topic from the tables and files alone, without the audit service.

Each revision's files are read again: checksums, rows, digests, offsets, and that no record is there twice. The last revision of
an hour must be exactly what `main` names, or the same rows in files of others; and where it has the audit's verdict, as many
rows as the audit had counted. A file of an earlier revision may be gone, once a later one no longer names it.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyiceberg.manifest import DataFile

from ...audit.model.tiers import WAREHOUSE
from ..errors import WarehouseError
from ..source.digest import MODULUS
from ..warehouse.delete_files import DeleteFile, Taken
from ..warehouse.file_rows import FileFacts, Rows, join_rows, read_file
from ..warehouse.hours import hour_name
from ..warehouse.proofs import AUDITED, COMPACTED, DIFFERS, NOT_PUBLISHED, REMOVED, Proof, ProvenOffsets, proven_offsets
from ..warehouse.topic_table import LOADS, MAIN, TopicTable
from ..warehouse.warehouse import Warehouse
from .read_back import names_of, touched

HOURS_AT_ONCE = 200
_Read = tuple[FileFacts, Rows] | str
"""A file's facts and rows, or why it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HourCheck:
    """One hour, recomputed."""

    hour: str
    revision: int
    """The last one; 0: there is none."""
    verdict: str
    row_count: int
    faults: tuple[str, ...] = ()
    """What differs from the proofs, or from what the audit had counted; empty: nothing."""
    note: str = ""
    """What others did without changing a row."""


def verify(warehouse: Warehouse, topic: str) -> Iterator[HourCheck]:
    """Yield every hour that has a proof or a published file, oldest first. Raises NoSuchTable."""
    table = warehouse.existing_table(topic)
    proofs = warehouse.proofs(topic)
    hours = sorted({*table.row_counts_by_hour(MAIN), *proofs.last_marks(up_to_publish=table.last_publish)})
    for at in range(0, len(hours), HOURS_AT_ONCE):
        some = hours[at : at + HOURS_AT_ONCE]
        main, deletes = table.files_by_hour(MAIN, some), table.deletes(MAIN, some)
        history = proofs.read(up_to_publish=table.last_publish, hours=set(some), words=True)
        for hour in some:
            yield _verify_hour(table, hour, main.get(hour, ()), deletes.get(hour, ()), history.get(hour, ()))


def _verify_hour(
    table: TopicTable, hour: int, main: Sequence[DataFile], deletes: Sequence[DeleteFile], history: Sequence[Proof]
) -> HourCheck:
    if not history:
        faults = tuple(f"{file.file_path} is on main, but in no proof" for file in main)
        rows = sum(file.record_count for file in main)
        return HourCheck(hour=hour_name(hour), revision=0, verdict="", row_count=rows, faults=faults)
    last = history[-1]
    standing, note = list(_standing(table, hour, last, main, deletes)), ""
    if not standing and Counter(file.path for file in last.files) != names_of(main, deletes):
        note = "another program rewrote its files with the same rows; the next publish proves them"
    read: dict[str, _Read] = {}
    faults_found: list[str] = []
    before = 0
    for proof in history:
        if proof.revision != before + 1 or (proof.previous or 0) != before:
            faults_found.append(
                f"revision {proof.revision} follows revision {before} and names {proof.previous} as the one before"
            )
        before = proof.revision
        may_be_gone = proof is not last or bool(note)
        found = _faults(table, proof, _deletes_of(proof, deletes), read, may_be_gone=may_be_gone)
        faults_found += [f"revision {proof.revision}: {fault}" for fault in found]
    return HourCheck(
        hour=hour_name(hour),
        revision=last.revision,
        verdict=last.verdict,
        row_count=last.row_count,
        faults=tuple(dict.fromkeys([*faults_found, *_lacking(last), *standing])),
        note=note,
    )


def _lacking(last: Proof) -> Iterator[str]:
    """Yield how the last revision is not what the audit had counted."""
    if last.verdict in (REMOVED, DIFFERS):
        yield f"{last.verdict}: {last.reason}"
    windows = json.loads(last.windows)
    counted = sum(window["tiers"].get(WAREHOUSE) or 0 for window in windows)
    if last.verdict in AUDITED and windows and counted != last.row_count:
        yield f"{last.verdict} over {last.row_count} rows, and the audit had counted {counted}"


def _standing(
    table: TopicTable, hour: int, last: Proof, main: Sequence[DataFile], deletes: Sequence[DeleteFile]
) -> Iterator[str]:
    """Yield how the branch `main` is not what the last revision names; nothing where others have rewritten the same rows."""
    named, standing = Counter(file.path for file in last.files), names_of(main, deletes)
    if named == standing:
        return
    if last.verdict not in NOT_PUBLISHED:
        found = touched(last, main, deletes, table.files(LOADS, {hour}), table.path_of)
        if found.change == COMPACTED:
            return
        yield found.fault or f"{found.missing} of {last.row_count} proven rows were removed from main"
    yield from (f"{path} is proven and not on main" for path in sorted(named.keys() - standing.keys()))
    yield from (f"{path} is on main, but in no proof" for path in sorted(standing.keys() - named.keys()))


def _deletes_of(proof: Proof, standing: Sequence[DeleteFile]) -> dict[str, DeleteFile]:
    """Return the delete files that the revision names. One that is no longer on `main` is assumed to be positional."""
    known = {one.path: one for one in standing}
    of = frozenset(file.path for file in proof.files if file.row_count >= 0)
    return {
        file.path: known.get(file.path) or DeleteFile(path=file.path, row_count=-file.row_count, of=of)
        for file in proof.files
        if file.path in known or file.row_count < 0
    }


def _faults(
    table: TopicTable, proof: Proof, deletes: Mapping[str, DeleteFile], read: dict[str, _Read], *, may_be_gone: bool
) -> Iterator[str]:
    if proof.verdict in NOT_PUBLISHED and proof.files:
        yield f"{proof.verdict}, and it names files"
    facts, parts = [], []
    taken = Taken(list(deletes.values()), table.path_of)
    taken_facts = _taken_facts(taken, proof, deletes)
    for file in proof.files:
        if file.path not in read:
            read[file.path] = _read(table, file.path)
        found = taken_facts if isinstance(taken_facts, str) or file.path in deletes else read[file.path]
        if isinstance(found, str):
            if not may_be_gone:
                yield found
            return
        if isinstance(found, tuple):
            mine, rows = found
            parts.append(taken.left(file.path, rows))
        else:
            mine = found[file.path]
        facts.append(mine)
        for what, proven, now in (
            ("size", file.size_bytes, mine.size_bytes),
            ("SHA-256", file.sha256, mine.sha256),
            ("rows", file.row_count, mine.row_count),
            ("digest", file.digest, f"{mine.digest:032x}"),
        ):
            if proven != now:
                yield f"{file.path}: {what} was {proven} and is {now}"
    rows = join_rows(parts)
    digest = f"{sum(one.digest for one in facts) % MODULUS:032x}"
    if (proof.row_count, proof.digest) != (len(rows), digest):
        yield f"{proof.row_count} rows with digest {proof.digest} were proven; its files hold {len(rows)} with {digest}"
    yield from _doubles(rows)
    loaded = {one.partition: one.loaded_to for one in proof.offsets}
    now_offsets = proven_offsets(facts, loaded)
    if now_offsets != proof.offsets:
        yield f"offsets were {_words(proof.offsets)} and are {_words(now_offsets)}"


def _taken_facts(taken: Taken, proof: Proof, deletes: Mapping[str, DeleteFile]) -> Mapping[str, FileFacts] | str:
    """Return what the delete files take of the revision's data files, or why that cannot be said."""
    try:
        return taken.facts(file.path for file in proof.files if file.path not in deletes)
    except FileNotFoundError as error:
        return f"{error.filename} is gone"
    except WarehouseError as error:
        return str(error)


def _read(table: TopicTable, path: str) -> _Read:
    try:
        return read_file(table.path_of(path))
    except FileNotFoundError:
        return f"{path} is gone"
    except WarehouseError as error:
        return str(error)


def _doubles(rows: Rows) -> Iterator[str]:
    for partition in np.unique(rows.partitions):
        offsets, counts = np.unique(rows.offsets[rows.partitions == partition], return_counts=True)
        if (counts > 1).any():
            first = int(offsets[counts > 1][0])
            yield f"{int((counts > 1).sum())} records of partition {partition} are there more than once, first offset {first}"


def _words(offsets: Sequence[ProvenOffsets]) -> str:
    return ", ".join(f"{one.partition}: {one.row_count} in [{one.first_offset}, {one.end_offset})" for one in offsets)
