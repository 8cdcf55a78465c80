"""Recomputes every proof of a topic from the tables and files alone, without the audit service.

Each revision's files are read again: checksums, rows, digests, offsets, and that no record stands twice. The last revision of an
hour must be exactly what `main` names. A file of an earlier revision may be gone, once a later one no longer names it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pyiceberg.manifest import DataFile

from ..errors import WarehouseError
from ..source.digest import MODULUS
from ..warehouse.file_rows import FileFacts, Rows, join_rows, read_file
from ..warehouse.hours import hour_name
from ..warehouse.proofs import NOT_PUBLISHED, Proof, ProvenOffsets, proven_offsets
from ..warehouse.topic_table import MAIN, TopicTable
from ..warehouse.warehouse import Warehouse

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
    """What differs from the proofs; empty: nothing."""


def verify(warehouse: Warehouse, topic: str) -> Iterator[HourCheck]:
    """Yield every hour that has a proof or a published file, oldest first. Raises NoSuchTable."""
    table = warehouse.existing_table(topic)
    main = table.files_by_hour(MAIN)
    history = warehouse.proofs(topic).read(up_to_publish=table.last_publish)
    for hour in sorted({*main, *history}):
        yield _verify_hour(table, hour, main.get(hour, ()), history.get(hour, ()))


def _verify_hour(table: TopicTable, hour: int, main: Sequence[DataFile], history: Sequence[Proof]) -> HourCheck:
    if not history:
        faults = tuple(f"{file.file_path} is on main and no proof names it" for file in main)
        rows = sum(file.record_count for file in main)
        return HourCheck(hour=hour_name(hour), revision=0, verdict="", row_count=rows, faults=faults)
    read: dict[str, _Read] = {}
    faults_found: list[str] = []
    before = 0
    for proof in history:
        is_last = proof is history[-1]
        if proof.revision != before + 1 or (proof.previous or 0) != before:
            faults_found.append(
                f"revision {proof.revision} follows revision {before} and names {proof.previous} as the one before"
            )
        before = proof.revision
        faults_found += [f"revision {proof.revision}: {fault}" for fault in _faults(table, proof, read, may_be_gone=not is_last)]
    last = history[-1]
    named, standing = {file.path for file in last.files}, {file.file_path for file in main}
    faults_found += [f"{path} is proven and not on main" for path in sorted(named - standing)]
    faults_found += [f"{path} is on main and no proof names it" for path in sorted(standing - named)]
    return HourCheck(
        hour=hour_name(hour),
        revision=last.revision,
        verdict=last.verdict,
        row_count=last.row_count,
        faults=tuple(dict.fromkeys(faults_found)),
    )


def _faults(table: TopicTable, proof: Proof, read: dict[str, _Read], *, may_be_gone: bool) -> Iterator[str]:
    if proof.verdict in NOT_PUBLISHED and proof.files:
        yield f"{proof.verdict}, and it names files"
    facts, parts = [], []
    for file in proof.files:
        if file.path not in read:
            read[file.path] = _read(table, file.path)
        found = read[file.path]
        if isinstance(found, str):
            if not may_be_gone:
                yield found
            return
        mine, rows = found
        facts.append(mine)
        parts.append(rows)
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
            yield f"{int((counts > 1).sum())} records of partition {partition} stand there more than once, first offset {first}"


def _words(offsets: Sequence[ProvenOffsets]) -> str:
    return ", ".join(f"{one.partition}: {one.row_count} in [{one.first_offset}, {one.end_offset})" for one in offsets)
