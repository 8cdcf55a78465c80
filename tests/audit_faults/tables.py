"""What others do to a table of the running platform, and what stands in it, read by pyiceberg's manifests and DuckDB."""

from pathlib import Path
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

from headrace.spark.warehouse.settings import WarehouseSettings
from headrace.spark.warehouse.warehouse import Warehouse

from .topics import HOUR_MS, Topic

MAIN, LOADS = "main", "loads"


def warehouse_of(topic: Topic) -> Warehouse:
    return Warehouse(WarehouseSettings.of(topic.platform.layout, {}))


def hour_of(topic: Topic) -> int:
    return topic.windows[0] // HOUR_MS


def offsets_in_table(topic: Topic, branch: str = MAIN) -> list[int]:
    """Return the offset of every row that a reader of the branch gets."""
    catalog = SqlCatalog("warehouse", uri=f"sqlite:///{quote(str(topic.platform.layout.warehouse / 'catalog.db'))}")
    table = catalog.load_table(("warehouse", topic.name))
    snapshot = table.snapshot_by_name(branch)
    if snapshot is None:
        return []
    files = [task.file.file_path.removeprefix("file://") for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files()]
    if not files:
        return []
    sql = f"SELECT _offset FROM read_parquet({files!r}, hive_partitioning=false) ORDER BY ALL"
    return [int(offset) for (offset,) in duckdb.sql(sql).fetchall()]


def stray_file(like: Path, offset: int) -> Path:
    """Write a file with the first row of another one, at an offset that no log has."""
    row = pq.ParquetFile(like).read().slice(0, 1)
    at = row.schema.get_field_index("_offset")
    path = like.with_name("stray.parquet")
    pq.write_table(row.set_column(at, row.schema.field(at), pa.array([offset], row.schema.field(at).type)), path)
    return path
