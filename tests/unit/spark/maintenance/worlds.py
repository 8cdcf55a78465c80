"""A table of many small files, and its rows as a reader that is not ours finds them: DuckDB on the raw files."""

import duckdb

from headrace.runtime.clock import ManualClock
from headrace.spark.maintenance.compact_job import CompactJob, CompactOutcome
from headrace.spark.maintenance.settings import CompactSettings
from headrace.spark.warehouse.store import local_path
from headrace.spark.warehouse.topic_table import LOADS
from tests.support.stored_table import Stored

TOPIC = "clicks"


def contents(stored: Stored, branch: str = LOADS) -> list[tuple[object, ...]]:
    """Return every column of every row of the branch's files, sorted."""
    table = stored.warehouse.existing_table(TOPIC)
    files = [str(local_path(file.file_path)) for file in table.files(branch)]
    if not files:
        return []
    sql = f"SELECT * FROM read_parquet({files!r}, hive_partitioning=false, union_by_name=true) ORDER BY _topic_partition, _offset"
    return duckdb.sql(sql).fetchall()


def file_counts(stored: Stored, branch: str = LOADS) -> dict[int, int]:
    found = stored.warehouse.existing_table(TOPIC).files_by_hour(branch)
    return {hour: len(files) for hour, files in sorted(found.items())}


def compact(stored: Stored, *, now_hour: int = 1_000, **words: object) -> CompactOutcome:
    settings = CompactSettings(**words)  # type: ignore[arg-type]
    return CompactJob(stored.warehouse, TOPIC, settings, clock=ManualClock(now_hour * 3_600_000)).run()
