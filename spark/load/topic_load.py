"""One load of one topic between its folder and its commit. The caller reads its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from ...audit.model.messages import Skipped
from ...runtime import failpoints, logs
from ..errors import LeaseLost, LoadUnproven
from ..lineage.datasets import TableDataset
from ..source import task_reports
from ..source.offset_ranges import OffsetRange, new_ranges, ranges_to_json
from ..warehouse.load_record import LoadRecord
from ..warehouse.store import StorePath, below, fetched, uri_of
from ..warehouse.topic_table import LOADS, TopicTable
from ..warehouse.warehouse import Warehouse
from .hour_writer import FileCheck
from .settings import LoadSettings
from .staging import StagingFolder, sweep

log = logs.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """The result of one load."""

    topic: str
    run: str | None = None
    """None: nothing was new."""
    snapshot_id: int | None = None
    row_count: int = 0
    file_count: int = 0
    size_bytes: int = 0
    """Of the files."""
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """Code → quarantined records or ranges."""
    ranges: tuple[OffsetRange, ...] = ()


class TopicLoad:
    """One load. Inside its `with` it has a folder; what is not committed at the end is deleted."""

    def __init__(
        self,
        settings: LoadSettings,
        warehouse: Warehouse,
        table: TopicTable | None,
        *,
        ranges: Sequence[OffsetRange],
        loaded: Mapping[int, int],
    ) -> None:
        """`table` and `loaded`, its offsets, as they were when `ranges` was found to be new."""
        self.settings = settings
        self.ranges = tuple(ranges)
        self._warehouse = warehouse
        self._table = table
        self._loaded = loaded
        self._folder = StagingFolder(warehouse, settings.topic)
        self.checks: Mapping[StorePath, FileCheck] = {}
        """What their writers say of the files, by `commit`; those of which none says anything are read for it."""
        self._is_ours_to_discard, self._is_decided = True, False

    def __enter__(self) -> "TopicLoad":
        self._folder.open()
        try:
            topic = self.settings.topic
            sweep(self._warehouse, topic)
            log.info("load_began", topic=topic, run=self._folder.name, ranges=ranges_to_json(self.ranges))
        except BaseException:
            self._folder.close(discard=True)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._folder.close(discard=self._is_ours_to_discard, is_decided=self._is_decided)

    @property
    def path(self) -> StorePath:
        """The folder for the rows."""
        return self._folder.path

    @property
    def scratch(self) -> Path:
        """A folder of this machine for as long."""
        return self._folder.scratch

    @property
    def columns(self) -> pa.Schema:
        """The table's event columns; none before the first load."""
        return self._table.event_columns() if self._table is not None else pa.schema([])

    def commit(self, columns: pa.Schema, files: Sequence[StorePath], total: task_reports.Total) -> LoadOutcome | None:
        """Commit the files; return None if another load committed first, or has taken this one for dead.
        Raises LoadUnproven if they do not hold the rows that were read; other WarehouseErrors: the commit may have succeeded
        then, and the next load's sweep decides about the files.
        """
        try:
            return self._commit(columns, files, total)
        except LeaseLost:
            log.warning("load_taken_for_dead", topic=self.settings.topic, run=self._folder.name)
            return None

    def _commit(self, columns: pa.Schema, files: Sequence[StorePath], total: task_reports.Total) -> LoadOutcome | None:
        topic, home, folder = self.settings.topic, self.settings.home, self._folder
        table = self._table if self._table is not None else self._warehouse.table_with(topic, columns)
        failpoints.reach("load.before_commit", home)
        checksums, size_bytes = _looked_at(topic, files, total.row_count, self.checks)
        folder.check()
        # The commit may have succeeded before the error. The sweep then decides about the files: it knows which ones a
        # snapshot names.
        self._is_ours_to_discard = False
        record = LoadRecord(
            run=folder.name,
            ranges=self.ranges,
            row_count=total.row_count,
            digests=total.digests,
            quarantined=total.quarantined,
            refused=total.refused,
            skipped=_skipped(self.ranges, self._loaded, total.skipped),
            files={below(path, folder.path): checksums[path] for path in files},
        )
        is_committed = table.commit_load(record=record, files=files, event_columns=columns)
        self._is_decided = True
        if not is_committed:
            self._is_ours_to_discard = True
            return None
        log.info("load_committed", topic=topic, run=folder.name, rows=total.row_count, files=len(files))
        failpoints.reach("load.after_commit", home)
        return LoadOutcome(
            topic=topic,
            run=folder.name,
            snapshot_id=table.snapshot_id(LOADS),
            row_count=total.row_count,
            file_count=len(files),
            size_bytes=size_bytes,
            quarantined=total.quarantined_by_code,
            ranges=self.ranges,
        )


def ranges_to_load(
    topic: str, *, loaded: Mapping[int, int], log_start: Mapping[int, int], log_end: Mapping[int, int]
) -> list[OffsetRange]:
    """Return what a load of the topic reads; empty if nothing is new. Raises WarehouseError as `new_ranges`.

    Partitions with nothing new are listed too: an empty range means that the warehouse has everything up to their end.
    """
    new = new_ranges(loaded=loaded, log_start=log_start, log_end=log_end, topic=topic)
    if not new:
        return []
    _warn_of_expired(topic, loaded, new)
    moved = {one.partition: one for one in new}
    return [
        moved.get(partition) or OffsetRange(partition=partition, from_offset=max(end, loaded.get(partition, 0)), to_offset=end)
        for partition, end in sorted(log_end.items())
    ]


def _looked_at(
    topic: str, files: Sequence[StorePath], row_count: int, checks: Mapping[StorePath, FileCheck]
) -> tuple[dict[StorePath, str], int]:
    """Return each file's SHA-256, and all bytes: as its writer has counted them, else as the store gives them back.

    Raises LoadUnproven if they do not hold so many rows, or if the store has another number of bytes.
    """
    found: dict[StorePath, str] = {}
    written = size_bytes = 0
    for path in files:
        check = checks.get(path) or _read_back(path)
        stored_bytes = path.stat().st_size
        if stored_bytes != check.size_bytes:
            raise LoadUnproven(topic, f"{check.size_bytes} bytes were written as {path}, and it has {stored_bytes}")
        found[path] = check.sha256
        written += check.row_count
        size_bytes += stored_bytes
    if written != row_count:
        raise LoadUnproven(topic, f"{row_count} rows were read and {written} are in the files")
    return found, size_bytes


def _read_back(path: StorePath) -> FileCheck:
    with fetched(path) as here:
        return FileCheck(here.sha256, here.path.stat().st_size, pq.read_metadata(here.path).num_rows)


def dataset_of(outcome: LoadOutcome, warehouse: Warehouse) -> TableDataset:
    """Return what is sent to OpenLineage about a load."""
    return TableDataset(
        location=uri_of(warehouse.data_folder(outcome.topic).parent),
        branch=LOADS,
        snapshot_id=outcome.snapshot_id,
        row_count=outcome.row_count,
        size_bytes=outcome.size_bytes,
        file_count=outcome.file_count,
    )


def _skipped(
    ranges: Sequence[OffsetRange], loaded: Mapping[int, int], unreadable: Mapping[int, Sequence[Skipped]]
) -> dict[int, list[Skipped]]:
    """Return the offsets that this load skipped, by partition: those that had expired, and those that could not be read."""
    found = {partition: list(some) for partition, some in unreadable.items()}
    for one in ranges:
        begin = loaded.get(one.partition, 0)
        if begin < one.from_offset:
            found.setdefault(one.partition, []).insert(0, Skipped(begin, one.from_offset, "expired"))
    return found


def _warn_of_expired(topic: str, loaded: Mapping[int, int], new: Sequence[OffsetRange]) -> None:
    for one in new:
        if one.from_offset > loaded.get(one.partition, 0):
            log.warning(
                "offsets_expired_before_load",
                topic=topic,
                partition=one.partition,
                from_offset=loaded.get(one.partition, 0),
                to_offset=one.from_offset,
            )
