"""What other people and other engines do to a table and its files."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import _parquet_files_to_data_files

from headrace.spark.warehouse.store import local_path
from headrace.spark.warehouse.topic_table import LOADS
from headrace.spark.warehouse.warehouse import Warehouse


def files(warehouse: Warehouse, branch: str = LOADS, topic: str = "clicks") -> list[Path]:
    return sorted(local_path(file.file_path) for file in warehouse.existing_table(topic).files(branch))


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.ParquetFile(path).read()), path)


def run_that_died(warehouse: Warehouse, run: str) -> None:
    """Leave the lease of a run as its process leaves it when it is killed."""
    warehouse.leases.take(f"run/clicks/{run}").leave()


def roll_back(warehouse: Warehouse, snapshot_id: int | None, branch: str = LOADS, topic: str = "clicks") -> None:
    """Set the branch back to an earlier snapshot, as an operator does (in Spark: `CALL fast_forward` or `REPLACE BRANCH`)."""
    assert snapshot_id is not None
    table = warehouse.existing_table(topic).iceberg
    if branch != LOADS:
        table.manage_snapshots().rollback_to_snapshot(snapshot_id).commit()
        return
    with table.manage_snapshots() as change:
        change.remove_branch(LOADS)
    table.refresh()
    with table.manage_snapshots() as change:
        change.create_branch(snapshot_id, LOADS)


def add_again(warehouse: Warehouse, branch: str, path: Path, topic: str = "clicks") -> None:
    """Add a data file that is on the branch again, as `add_files` of another engine does."""
    table = warehouse.existing_table(topic).iceberg
    table.add_files([f"file://{path}"], branch=branch, check_duplicate_files=False)


def rot(path: Path, at: int | None = None) -> int:
    """Turn one bit of a file over, and leave its size and its time as they were; return where. Twice, and it is right again.

    Without `at` it is the first place at which a reader gets other rows, or none: a bit of a statistic changes nothing.
    """
    before, content = path.stat(), path.read_bytes()
    places = range(4, len(content)) if at is None else [at]
    place = next(one for one in places if at is not None or not _reads_the_same(content, _turned(content, one)))
    path.write_bytes(_turned(content, place))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return place


def _turned(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _reads_the_same(one: bytes, other: bytes) -> bool:
    try:
        return bool(pq.read_table(pa.BufferReader(one)).equals(pq.read_table(pa.BufferReader(other))))
    except (OSError, ValueError, pa.ArrowException):
        return False


def compact(
    warehouse: Warehouse,
    branch: str,
    hour: int,
    change: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    topic: str = "clicks",
) -> Path:
    """Replace an hour's files on a branch by one file, as another engine's maintenance does; return it."""
    table = warehouse.existing_table(topic)
    old = table.files_by_hour(branch)[hour]
    path = table.data_folder / f"compacted-{branch}-{hour}.parquet"
    tables = [pq.ParquetFile(local_path(file.file_path)).read() for file in old]
    pq.write_table(change(pa.concat_tables(tables)), path)
    with table.iceberg.transaction() as transaction:
        (new,) = _parquet_files_to_data_files(transaction.table_metadata, [f"file://{path}"], table.iceberg.io)
        with transaction.update_snapshot(branch=branch).overwrite() as snapshot:
            snapshot.append_data_file(new)
            for file in old:
                snapshot.delete_data_file(file)
    return path
