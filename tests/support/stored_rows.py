"""Parquet files as a load leaves them, for tests of what comes after one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.audit.model.messages import Skipped, Stretch
from headrace.spark.source.columns import HOUR_FIELD
from headrace.spark.source.offset_ranges import OffsetRange
from headrace.spark.warehouse.file_rows import join_rows, read_file
from headrace.spark.warehouse.load_record import LoadRecord
from headrace.spark.warehouse.store import StorePath, writer
from headrace.spark.warehouse.topic_table import TopicTable
from headrace.spark.warehouse.warehouse import Warehouse

EVENT = pa.schema([("path", pa.string())])
HOUR_MS = 3_600_000

Row = tuple[int, int, int]
"""Partition, offset, timestamp in milliseconds."""


def write_rows(folder: Any, rows: Sequence[Row], **columns: Any) -> list[Any]:
    """Write one file an hour into a folder of the warehouse, wherever it is, and return them."""
    by_hour: dict[int, list[Row]] = {}
    for row in rows:
        by_hour.setdefault(row[2] // HOUR_MS, []).append(row)
    files = []
    for hour, mine in by_hour.items():
        path = folder / f"{HOUR_FIELD}={hour}" / "part-0.parquet"
        table = {
            "path": pa.array([f"/{offset}" for _, offset, _ in mine]),
            **{name: _column(value, len(mine)) for name, value in columns.items()},
            "_topic_partition": pa.array([partition for partition, _, _ in mine], pa.int32()),
            "_offset": pa.array([offset for _, offset, _ in mine], pa.int64()),
            "_timestamp": pa.array([at * 1_000 for _, _, at in mine], pa.timestamp("us", "UTC")),
            "_schema_id": pa.array([1] * len(mine), pa.int32()),
        }
        with writer(path) as file:
            pq.write_table(pa.table(table), file)
        files.append(path)
    return files


def _column(value: Any, count: int) -> pa.Array:
    return pa.repeat(value, count) if isinstance(value, pa.Scalar) else pa.array([value] * count)


def span(partition: int, from_offset: int, to_offset: int) -> OffsetRange:
    return OffsetRange(partition=partition, from_offset=from_offset, to_offset=to_offset)


def store(
    warehouse: Warehouse,
    run: str,
    rows: Sequence[Row],
    ranges: Sequence[OffsetRange],
    *,
    topic: str = "clicks",
    table: TopicTable | None = None,
    quarantined: dict[int, dict[int, list[Stretch]]] | None = None,
    skipped: dict[int, list[Skipped]] | None = None,
    refused: dict[int, int] | None = None,
    **columns: Any,
) -> bool:
    """Commit rows as a load would; return what the commit returned."""
    table = table or warehouse.table_with(topic, EVENT)
    files = write_rows(warehouse.data_folder(topic) / run, rows, **columns)
    named = {one.name: one for one in table.event_columns()}
    wider = pa.schema({**named, **{name: pa.field(name, _column(value, 1).type) for name, value in columns.items()}}.values())
    return table.commit_load(
        record=replace(record(run, files, ranges, quarantined), skipped=skipped or {}, refused=refused or {}),
        files=files,
        event_columns=wider,
    )


def record(
    run: str,
    files: Sequence[StorePath],
    ranges: Sequence[OffsetRange],
    quarantined: dict[int, dict[int, list[Stretch]]] | None = None,
) -> LoadRecord:
    """Return what a load would say of these files: here they are what was decoded."""
    rows = join_rows([read_file(path)[1] for path in files])
    digests = {}
    for partition in set(rows.partitions.tolist()):
        mine = rows.where(rows.partitions == partition)
        digests[partition] = mine.hashes.totals(mine.windows)
    return LoadRecord(run=run, ranges=tuple(ranges), row_count=len(rows), digests=digests, quarantined=quarantined or {})
