"""A load's checksums are of what its tasks meant to write; the store's own bytes are counted, and read by counts and proofs."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.spark.errors import LoadUnproven
from headrace.spark.load.hour_writer import FileCheck, HourWriter
from headrace.spark.load.topic_load import _looked_at
from headrace.spark.source.columns import SYSTEM_COLUMNS

TARGET = pa.schema([pa.field("path", pa.string()), *SYSTEM_COLUMNS])
HOUR_US = 3_600_000_000


def rows(count: int, hours: int) -> pa.RecordBatch:
    columns = {
        "path": [f"/{n}" for n in range(count)],
        "_topic_partition": [0] * count,
        "_offset": list(range(count)),
        "_timestamp": [n * hours * HOUR_US // count for n in range(count)],
        "_schema_id": [1] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=TARGET)


@pytest.mark.parametrize("most_open_files", [1, 8])
def test_what_a_writer_says_of_its_files_is_what_stands_there(tmp_path: Path, most_open_files: int) -> None:
    writer = HourWriter(tmp_path, TARGET, name="part", buffer_bytes=1_000, most_open_files=most_open_files, most_file_rows=70)
    for _ in range(4):
        writer.add(rows(100, hours=3))
    files = writer.finish()
    assert len(files) > 3
    assert set(writer.checks) == set(files)
    for path in files:
        content = path.read_bytes()
        check = FileCheck(hashlib.sha256(content).hexdigest(), len(content), pq.read_metadata(path).num_rows)
        assert writer.checks[path] == check
    assert _looked_at("clicks", files, 400, writer.checks) == _looked_at("clicks", files, 400, {})


def test_a_file_of_another_length_or_with_other_rows_is_not_committed(tmp_path: Path) -> None:
    writer = HourWriter(tmp_path, TARGET, name="part")
    writer.add(rows(10, hours=1))
    (path,) = writer.finish()
    with pytest.raises(LoadUnproven, match="11 rows were read and 10 are in the files"):
        _looked_at("clicks", [path], 11, writer.checks)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LoadUnproven, match=r"bytes were written as .* and it has"):
        _looked_at("clicks", [path], 10, writer.checks)
