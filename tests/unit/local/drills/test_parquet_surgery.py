"""A Parquet file swapped for one with as many rows, of which one is another."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.local.drills.parquet_surgery import file_with, offsets_in, swap


def write(path: Path, offsets: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([pa.field("_offset", pa.int64(), metadata={"PARQUET:field_id": "7"}), pa.field("path", pa.string())])
    pq.write_table(pa.table({"_offset": offsets, "path": [f"/{offset}" for offset in offsets]}, schema=schema), path)


def test_the_swapped_file_lacks_one_row_and_has_another_twice_and_its_neighbours_are_untouched(tmp_path: Path) -> None:
    write(tmp_path / "run" / "_timestamp-hour=1" / "a.parquet", [10, 20, 30, 40])
    write(tmp_path / "run" / "_timestamp-hour=2" / "b.parquet", [50, 60])
    path = file_with(tmp_path, 20)
    swap(path, without=20, doubled=40)
    assert offsets_in(path) == [10, 30, 40, 40]
    swapped = pq.read_table(path, partitioning=None)
    assert swapped.column("path").to_pylist() == ["/10", "/30", "/40", "/40"]
    assert swapped.schema.field("_offset").metadata == {b"PARQUET:field_id": b"7"}, "Iceberg finds columns by these"
    assert offsets_in(file_with(tmp_path, 60)) == [50, 60]
    assert [one.name for one in path.parent.iterdir()] == ["a.parquet"]


def test_an_offset_that_no_file_holds_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [10])
    with pytest.raises(LookupError, match="11"):
        file_with(tmp_path, 11)
