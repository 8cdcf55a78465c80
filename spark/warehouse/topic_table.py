"""One topic's table, and the commit that adds files, offsets and counts together.

    table property   headrace.offsets                {"<partition>": loaded up to}: set in the commit that adds the files
    table property   headrace.reported               id of the last snapshot whose counts were reported to the audit
    table property   headrace.published              {"snapshot_id", "hours": ["2015-05-17T10", "2015-05-18T00/2015-05-19T23"]}
    snapshot summary headrace.run, .ranges, .quarantined, .rows   one load's own part

Traps (`facts/dependencies_and_traps.md`): the next snapshot does not inherit a summary, hence the property. pyiceberg rebases a
conflicting append, which would load twice; so commits are not retried here, and the offsets are compared again.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from ..errors import WarehouseError
from ..source.columns import SYSTEM_COLUMNS, settled
from ..source.offset_ranges import OffsetRange, ranges_from_json, ranges_to_json
from .hours import hours_names, hours_of_names

COMMIT_ATTEMPTS = 20
"""How often a commit is tried when another process changed only the table's properties meanwhile."""

_OFFSETS = "headrace.offsets"
_REPORTED = "headrace.reported"
_PUBLISHED = "headrace.published"
_RUN = "headrace.run"
_RANGES = "headrace.ranges"
_QUARANTINED = "headrace.quarantined"
_ROWS = "headrace.rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSnapshot:
    """One load, read from its snapshot."""

    snapshot_id: int
    run: str
    ranges: tuple[OffsetRange, ...]
    quarantined: Mapping[int, Mapping[int, int]]
    """Partition → window start → records."""
    row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The hours that are open to readers, and the snapshot whose rows were proven."""

    snapshot_id: int | None
    hours: frozenset[int]
    """Hours since the epoch."""


class TopicTable:
    """One topic's table as of its loading; a commit fails if the table has changed since."""

    def __init__(self, topic: str, table: Table, *, reload: Callable[[], Table]) -> None:
        """`reload` returns the table as it is now, for another attempt to commit."""
        self.topic = topic
        self._table = table
        self._load_again = reload

    @property
    def iceberg(self) -> Table:
        """Return the pyiceberg table, for readers."""
        return self._table

    @property
    def snapshot_id(self) -> int | None:
        snapshot = self._table.current_snapshot()
        return None if snapshot is None else snapshot.snapshot_id

    def arrow_schema(self) -> pa.Schema:
        """Return all columns with the types of `columns.settled`, without Iceberg's field metadata."""
        found = schema_to_pyarrow(self._table.schema(), include_field_ids=False)
        return pa.schema([pa.field(one.name, settled(one.type)) for one in found])

    def event_columns(self) -> pa.Schema:
        return pa.schema([field for field in self.arrow_schema() if field.name not in SYSTEM_COLUMNS.names])

    def offsets(self) -> dict[int, int]:
        """Return partition → offset up to which it is loaded."""
        return {int(name): int(offset) for name, offset in json.loads(self._table.properties.get(_OFFSETS, "{}")).items()}

    def commit_load(
        self,
        *,
        run: str,
        files: Sequence[Path],
        ranges: Sequence[OffsetRange],
        quarantined: Mapping[int, Mapping[int, int]],
        row_count: int,
        event_columns: pa.Schema,
    ) -> bool:
        """Add files, new columns, the ranges' ends and the counts in one commit; return False if another load committed first.

        Each file holds rows of one hour. The commit is visible as a whole or not at all.
        """
        before = self.offsets()
        if any(one.from_offset < before.get(one.partition, 0) for one in ranges):
            return False
        offsets = {**before, **{one.partition: one.to_offset for one in ranges}}
        summary = {
            _RUN: run,
            _RANGES: ranges_to_json(ranges),
            _QUARANTINED: json.dumps(quarantined, sort_keys=True),
            _ROWS: str(row_count),
        }
        for _ in range(COMMIT_ATTEMPTS):
            transaction = self._table.transaction()
            try:
                with transaction.update_schema() as update:
                    update.union_by_name(pa.schema([*event_columns, *SYSTEM_COLUMNS]))
                transaction.set_properties(
                    {_OFFSETS: json.dumps(offsets, sort_keys=True), "schema.name-mapping.default": self._mapping(transaction)}
                )
                if files:
                    transaction.add_files(
                        [f"file://{path}" for path in files], snapshot_properties=summary, check_duplicate_files=False
                    )
                else:
                    # Offsets without rows are a snapshot too: only a snapshot is refused after a concurrent commit.
                    with transaction.update_snapshot(snapshot_properties=summary).fast_append():
                        pass
                transaction.commit_transaction()
                return True
            except CommitFailedException:
                self._reload()
                if self.offsets() != before:
                    return False
        raise WarehouseError(
            f"commit to table {self.topic!r} was refused {COMMIT_ATTEMPTS} times though no load came in between: try again"
        )

    def snapshots_to_report(self) -> list[LoadSnapshot]:
        """Return the loads whose counts were not reported to the audit, oldest first.

        Snapshots that are not loads are skipped.
        """
        reported = self._table.properties.get(_REPORTED)
        found = []
        for snapshot in self._ancestors():
            if reported is not None and snapshot.snapshot_id == int(reported):
                break
            summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
            if _RUN in summary:
                found.append(
                    LoadSnapshot(
                        snapshot_id=snapshot.snapshot_id,
                        run=summary[_RUN],
                        ranges=tuple(ranges_from_json(summary[_RANGES])),
                        quarantined={
                            int(partition): {int(start): count for start, count in windows.items()}
                            for partition, windows in json.loads(summary[_QUARANTINED]).items()
                        },
                        row_count=int(summary[_ROWS]),
                    )
                )
        return found[::-1]

    def set_reported(self, snapshot_id: int) -> None:
        """Store that this snapshot and all before it were reported to the audit."""
        self._set_property(_REPORTED, str(snapshot_id))

    def published(self) -> Published:
        words = json.loads(self._table.properties.get(_PUBLISHED, "{}"))
        return Published(snapshot_id=words.get("snapshot_id"), hours=frozenset(hours_of_names(words.get("hours", ()))))

    def set_published(self, published: Published) -> None:
        words = {"snapshot_id": published.snapshot_id, "hours": hours_names(published.hours)}
        self._set_property(_PUBLISHED, json.dumps(words))

    def files_added_by(self, snapshot_id: int) -> list[Path]:
        """Return the data files that one snapshot added."""
        snapshot = self._table.snapshot_by_id(snapshot_id)
        assert snapshot is not None
        found = []
        for manifest in snapshot.manifests(self._table.io):
            if manifest.added_snapshot_id != snapshot_id:
                continue
            for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True):
                if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot_id:
                    found.append(local_path(entry.data_file.file_path))
        return sorted(found)

    def files(self, snapshot_id: int | None = None) -> list[DataFile]:
        """Return the data files of a snapshot (default: the current one)."""
        if self._table.current_snapshot() is None:
            return []
        return [task.file for task in self._table.scan(snapshot_id=snapshot_id).plan_files()]

    def row_counts_by_hour(self) -> dict[int, int]:
        """Return hour since the epoch → rows, from the files' own metadata."""
        counts: dict[int, int] = {}
        for file in self.files():
            counts[hour_of(file)] = counts.get(hour_of(file), 0) + file.record_count
        return counts

    def referenced_paths(self) -> set[Path]:
        """Return every data file that any snapshot of the table names, whichever snapshot added it.

        A manifest outlives the snapshot that added it: later snapshots go on naming it after the first one has expired.
        """
        io = self._table.io
        manifests = {one.manifest_path: one for snapshot in self._table.metadata.snapshots for one in snapshot.manifests(io)}
        return {
            local_path(entry.data_file.file_path)
            for manifest in manifests.values()
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=False)
        }

    def _mapping(self, transaction: object) -> str:
        # Parquet files written by Spark have no field ids: columns are matched by name, new ones too.
        schema = transaction.table_metadata.schema()  # type: ignore[attr-defined]
        text: str = schema.name_mapping.model_dump_json()
        return text

    def _set_property(self, name: str, value: str) -> None:
        for _ in range(COMMIT_ATTEMPTS):
            transaction = self._table.transaction()
            transaction.set_properties({name: value})
            try:
                transaction.commit_transaction()
                return
            except CommitFailedException:
                self._reload()
        raise WarehouseError(f"property {name} of table {self.topic!r} was not set in {COMMIT_ATTEMPTS} attempts: try again")

    def _reload(self) -> None:
        self._table = self._load_again()

    def _ancestors(self) -> Iterator[Snapshot]:
        snapshot = self._table.current_snapshot()
        while snapshot is not None:
            yield snapshot
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)


def local_path(uri: str) -> Path:
    """Return the path of a file's URI in the warehouse."""
    return Path(uri.removeprefix("file://"))


def hour_of(file: DataFile) -> int:
    """Return the hour since the epoch to which all rows of the file belong."""
    hour: int = file.partition[0]
    return hour
