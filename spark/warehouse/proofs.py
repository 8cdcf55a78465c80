"""Proofs of published hours: rows of the Iceberg table `headrace.proofs`, written before the publish that names them.

They outlive the snapshots of the topics' tables. A proof whose publish number is above the table's last publish is a leftover of
a publish that did not reach `main`. Layout: docs/FORMATS.md.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from .branch_files import spans_of
from .catalogs import reaching_catalog
from .file_rows import FileFacts
from .hours import hour_name
from .store import StorePath, reaching_store

WITHDRAWN = "WITHDRAWN"
"""The hour was taken away from readers: no file of it is published."""
ERASED = "ERASED"
"""Somebody removed rows on purpose, with an operator's word on the audit topic."""
REMOVED = "REMOVED"
"""Others removed rows, for an unknown reason."""
COMPACTED = "COMPACTED"
"""The files were rewritten, by our compaction or by others: the same rows, by number and digest."""
EXPIRED = "EXPIRED"
"""Retention dropped the hour: no file of it is in the table."""
DIFFERS = "DIFFERS"
"""Read back from the snapshot of its own commit, the hour was not what the commit was to make it."""
NOT_PUBLISHED = (WITHDRAWN, EXPIRED)
AUDITED = ("COMPLETE", "ACCEPTED", "ACCOUNTED")
"""The audit's verdicts that open an hour: of a revision that holds each row that the audit has counted, once."""

ROWS_AT_ONCE = {"write.parquet.row-group-limit": "500"}
"""Property of the table: a reader of some hours reads only the row groups that may have them."""
MOST_SPANS = 50
"""More runs of hours than this are asked for as one."""

_FILE = pa.struct(
    [
        pa.field("path", pa.string()),
        pa.field("size_bytes", pa.int64()),
        pa.field("sha256", pa.string()),
        pa.field("row_count", pa.int64()),
        pa.field("digest", pa.string()),
    ]
)
_OFFSETS = pa.struct(
    [
        pa.field("partition", pa.int32()),
        pa.field("first_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("row_count", pa.int64()),
        pa.field("loaded_to", pa.int64()),
    ]
)
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("hour", pa.int64()),
        pa.field("hour_name", pa.string()),
        pa.field("revision", pa.int32()),
        pa.field("previous", pa.int32()),
        pa.field("publish", pa.int64()),
        pa.field("verdict", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("row_count", pa.int64()),
        pa.field("digest", pa.string()),
        pa.field("files", pa.list_(pa.field("element", _FILE))),
        pa.field("gone", pa.list_(pa.field("element", pa.string()))),
        pa.field("offsets", pa.list_(pa.field("element", _OFFSETS))),
        pa.field("windows", pa.string()),
        pa.field("loads_snapshot_id", pa.int64()),
        pa.field("main_snapshot_id", pa.int64()),
        pa.field("at_ms", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenFile:
    """One file of an hour, as it was proven."""

    path: str
    """As the table names it."""
    size_bytes: int
    sha256: str
    row_count: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenOffsets:
    """The records of one partition in the hour. Without rows both offsets are 0."""

    partition: int
    first_offset: int
    end_offset: int
    row_count: int
    loaded_to: int
    """How far the partition was loaded then: what lies behind is late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One revision of one hour."""

    topic: str
    hour: int
    revision: int
    """1, 2, …"""
    previous: int | None
    publish: int
    """Number of the publish that carried it out."""
    verdict: str
    """One of `AUDITED`, or of the words above."""
    reason: str
    row_count: int
    digest: str
    files: tuple[ProvenFile, ...]
    """All of the hour's files on `main` since this revision."""
    gone: tuple[str, ...] = ()
    """Files that others removed: they are never added again."""
    offsets: tuple[ProvenOffsets, ...] = ()
    windows: str = "[]"
    """The audit's own words, JSON."""
    loads_snapshot_id: int | None = None
    main_snapshot_id: int | None = None
    """The head of `main` before the publish."""
    at_ms: int

    def loaded_to(self, partition: int) -> int:
        return next((one.loaded_to for one in self.offsets if one.partition == partition), 0)


class Mark(NamedTuple):
    """What of a proof is read for all hours at once."""

    revision: int
    verdict: str


class Proofs:
    """The table's rows of one topic."""

    def __init__(self, table: Table, topic: str, *, folder: StorePath) -> None:
        """`folder`: the table's."""
        self._table = table
        self._folder = folder
        self._topic = topic

    @property
    def iceberg(self) -> Table:
        """Return the pyiceberg table, for readers."""
        return self._table

    def read(self, *, up_to_publish: int, hours: Collection[int] | None = None, words: bool = False) -> dict[int, list[Proof]]:
        """Return hour → its revisions, oldest first; without leftovers of later publishes, and without the audit's words.

        `hours`: only these, of which then only the row groups are read. `words`: with the audit's words.
        """
        if self._table.current_snapshot() is None or (hours is not None and not hours):
            return {}
        wanted = tuple(name for name in SCHEMA.names if name != "hour_name" and (words or name != "windows"))
        members = hours if hours is None or isinstance(hours, range) else set(hours)
        found: dict[int, list[Proof]] = {}
        for row in sorted(self._rows(hours, wanted), key=lambda one: (one["hour"], one["revision"])):
            if row["publish"] <= up_to_publish and (members is None or row["hour"] in members):
                found.setdefault(row["hour"], []).append(_proof(row))
        return found

    def marks(self, *, up_to_publish: int) -> dict[int, list[Mark]]:
        """Return of every hour what `read` returns, but only what is cheap to read of thousands."""
        if self._table.current_snapshot() is None:
            return {}
        with reaching_store(self._folder):
            fields = ("hour", "publish", *Mark._fields)
            rows = self._table.scan(row_filter=self._of_topic(), selected_fields=fields).to_arrow()
        columns = [rows[name].to_pylist() for name in ("hour", "publish", *Mark._fields)]
        found: dict[int, list[Mark]] = {}
        for hour, publish, revision, verdict in sorted(zip(*columns, strict=True), key=lambda one: (one[0], one[2])):
            if publish <= up_to_publish:
                found.setdefault(hour, []).append(Mark(revision, verdict))
        return found

    def hours_since(self, *, publish: int, up_to_publish: int) -> set[int]:
        """Return the hours that have a revision of a later publish than this one."""
        if self._table.current_snapshot() is None:
            return set()
        with reaching_store(self._folder):
            later = f"{self._of_topic()} and publish > {publish} and publish <= {up_to_publish}"
            return set(self._table.scan(row_filter=later, selected_fields=("hour",)).to_arrow()["hour"].to_pylist())

    def last_marks(self, *, up_to_publish: int) -> dict[int, Mark]:
        """Return hour → its last revision, fast: ten thousand hours are no loop."""
        if self._table.current_snapshot() is None:
            return {}
        with reaching_store(self._folder):
            rows = self._table.scan(row_filter=self._of_topic(), selected_fields=("hour", "publish", *Mark._fields)).to_arrow()
        rows = rows.filter(pc.less_equal(rows["publish"], up_to_publish)).sort_by(
            [("hour", "ascending"), ("revision", "ascending")]
        )
        hours = np.asarray(rows["hour"])
        last = rows.take(np.flatnonzero(np.append(hours[1:] != hours[:-1], np.ones(min(1, len(hours)), np.bool_))))
        columns = [last[name].to_pylist() for name in ("hour", *Mark._fields)]
        return {hour: Mark(revision, verdict) for hour, revision, verdict in zip(*columns, strict=True)}

    def _rows(self, hours: Collection[int] | None, wanted: tuple[str, ...]) -> list[dict[str, Any]]:
        with reaching_store(self._folder):
            scan = self._table.scan(row_filter=_among(self._of_topic(), hours), selected_fields=wanted)
            return list(scan.to_arrow().to_pylist())

    def _of_topic(self) -> str:
        return f"topic == '{self._topic}'"

    def discard_leftovers(self, *, after_publish: int) -> None:
        """Delete the proofs of a publish that did not reach `main`."""
        if self._table.current_snapshot() is None:
            return
        leftover = f"topic == '{self._topic}' and publish > {after_publish}"
        with reaching_catalog(), reaching_store(self._folder):
            if len(self._table.scan(row_filter=leftover, selected_fields=("publish",)).to_arrow()):
                self._table.delete(leftover)

    def append(self, proofs: Sequence[Proof]) -> None:
        rows = [{**asdict(one), "hour_name": hour_name(one.hour)} for one in proofs]
        with reaching_catalog(), reaching_store(self._folder):
            self._table.append(pa.Table.from_pylist(rows, SCHEMA))


def _among(topic: str, hours: Collection[int] | None) -> str:
    """Return a filter that lets all proofs of these hours through, and perhaps others."""
    if hours is None:
        return topic
    spans = spans_of(hours) if not isinstance(hours, range) else ((hours[0], hours[-1]),)
    if len(spans) > MOST_SPANS:
        spans = ((spans[0][0], spans[-1][1]),)
    return f"{topic} and ({' or '.join(f'(hour >= {first} and hour <= {last})' for first, last in spans)})"


def removed_rows(history: Sequence[Proof]) -> int:
    """Return the rows that others have removed since the hour was last published again."""
    count = 0
    for before, after in pairwise(history):
        if after.verdict in (REMOVED, ERASED):
            count += max(0, before.row_count - after.row_count)  # late rows that went out since have removed nothing
        elif after.verdict in NOT_PUBLISHED or not after.gone:
            count = 0
    return count


def _proof(row: Mapping[str, Any]) -> Proof:
    words = dict(row)
    words["files"] = tuple(ProvenFile(**one) for one in row["files"])
    words["gone"] = tuple(row["gone"])
    words["offsets"] = tuple(ProvenOffsets(**one) for one in row["offsets"])
    return Proof(**words)


def proven_offsets(files: Iterable[FileFacts], loaded: Mapping[int, int]) -> tuple[ProvenOffsets, ...]:
    """Return the files' offsets by partition; a partition without rows is listed for how far it was loaded."""
    found: dict[int, tuple[int, int, int]] = {}
    for one in files:
        for partition, (first, end, count) in one.partitions.items():
            before = found.get(partition, (first, end, 0))
            found[partition] = (min(first, before[0]), max(end, before[1]), count + before[2])
    return tuple(
        ProvenOffsets(
            partition=partition, first_offset=first, end_offset=end, row_count=count, loaded_to=loaded.get(partition, end)
        )
        for partition in sorted({*found, *loaded})
        for first, end, count in (found.get(partition, (0, 0, 0)),)
    )
