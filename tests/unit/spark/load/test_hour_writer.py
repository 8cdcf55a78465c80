"""Rows become Parquet files of one hour each, however they come; read back by Spark's rules' other reader, duckdb."""

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from headrace.spark.load.hour_writer import HourWriter
from headrace.spark.source.columns import HOUR_FIELD, SYSTEM_COLUMNS
from headrace.spark.warehouse.hours import BEFORE_1970

SCHEMA = pa.schema([("n", pa.int64()), ("price", pa.decimal128(9, 2)), *SYSTEM_COLUMNS])
HOUR_MS = 3_600_000


def rows(times_ms: list[int], first: int = 0) -> pa.RecordBatch:
    count = len(times_ms)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(range(first, first + count), pa.int64()),
            pa.nulls(count, pa.decimal128(9, 2)),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            pa.array(range(first, first + count), pa.int64()),
            pa.array([at * 1_000 for at in times_ms], pa.timestamp("us", "UTC")),
            pa.repeat(pa.scalar(1, pa.int32()), count),
        ],
        schema=SCHEMA,
    )


def stored(files: list[Path]) -> list[tuple[int, int]]:
    """Return number and time (ms) of every row, sorted."""
    names = ", ".join(f"'{path}'" for path in files)
    return sorted(
        duckdb.sql(f"SELECT n, epoch_ms(_timestamp) FROM read_parquet([{names}], hive_partitioning = false)").fetchall()
    )


def hour_of(path: Path) -> int:
    return int(path.parent.name.removeprefix(f"{HOUR_FIELD}="))


@pytest.mark.parametrize(("buffer_bytes", "most_open_files", "most_file_rows"), [(1, 1, 7), (4_000, 2, 50), (1 << 20, 32, 1_000)])
def test_every_row_stands_once_in_a_file_of_its_hour(
    tmp_path: Path, buffer_bytes: int, most_open_files: int, most_file_rows: int
) -> None:
    draw = random.Random(7)
    times = [draw.randrange(-3 * HOUR_MS, 5 * HOUR_MS) for _ in range(600)]
    writer = HourWriter(
        tmp_path,
        SCHEMA,
        name="part-0-0",
        buffer_bytes=buffer_bytes,
        most_open_files=most_open_files,
        most_file_rows=most_file_rows,
    )
    for begin in range(0, len(times), 60):
        writer.add(rows(times[begin : begin + 60], begin))
    files = writer.finish()
    assert sorted(files) == sorted(tmp_path.glob("*/*.parquet"))
    assert stored(files) == sorted(enumerate(times))
    for path in files:
        (found,) = duckdb.sql(f"SELECT count(*), min(_timestamp), max(_timestamp) FROM '{path}'").fetchall()
        assert 0 < found[0] <= most_file_rows
        assert {int(at.timestamp() // 3600) for at in found[1:]} == {hour_of(path)}


def test_no_more_files_are_open_than_allowed(tmp_path: Path) -> None:
    writer = HourWriter(tmp_path, SCHEMA, name="part", buffer_bytes=1, most_open_files=3)
    for hour in (0, 1, 2, 3, 0):
        writer.add(rows([hour * HOUR_MS]))
        assert len(writer._open) <= 3
    assert [hour_of(path) for path in writer.finish()] == [0, 1, 2, 3, 0]


def test_rows_of_one_buffer_stand_in_the_order_of_their_time(tmp_path: Path) -> None:
    writer = HourWriter(tmp_path, SCHEMA, name="part")
    writer.add(rows([3_000, 1_000]))
    writer.add(rows([2_000, 1_000], 2))
    (file,) = writer.finish()
    assert duckdb.sql(f"SELECT n FROM '{file}'").fetchall() == [(1,), (3,), (2,), (0,)]


def test_only_the_hours_that_were_asked_for_are_written_and_all_of_before_1970_are_one(tmp_path: Path) -> None:
    writer = HourWriter(tmp_path, SCHEMA, name="part", hours={1, BEFORE_1970})
    writer.add(rows([0, HOUR_MS, 2 * HOUR_MS - 1, 2 * HOUR_MS, -1, -(10**12)]))
    assert [n for n, _ in stored(writer.finish())] == [1, 2, 4, 5]


def test_two_attempts_of_one_task_write_into_no_common_file(tmp_path: Path) -> None:
    first, second = (HourWriter(tmp_path, SCHEMA, name="part-0-0") for _ in range(2))
    first.add(rows([0]))
    second.add(rows([0]))
    assert not set(first.finish()) & set(second.finish())


def test_nothing_to_write_makes_no_file(tmp_path: Path) -> None:
    writer = HourWriter(tmp_path, SCHEMA, name="part")
    writer.add(rows([]))
    assert writer.finish() == []
    assert not [*tmp_path.iterdir()]
