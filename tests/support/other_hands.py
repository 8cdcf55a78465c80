"""What other people and other engines do to a table and its files."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import _parquet_files_to_data_files
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.transforms import HourTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, ListType, StructType

from headrace.spark.source.columns import HOUR_FIELD
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


def delete_rows(
    warehouse: Warehouse,
    branch: str,
    hour: int,
    offsets: Sequence[int],
    *,
    by: str = "pos",
    everywhere: bool = False,
    topic: str = "clicks",
) -> Path:
    """Take rows of an hour from readers by a delete file, as merge-on-read engines do; return it.

    `by`: `pos`, a position delete file (Spark), or a column, an equality delete file with its values (Flink). `everywhere`: of
    no partition, so that it takes rows of all hours.
    """
    table = warehouse.existing_table(topic)
    rows = [
        (file, at, row)
        for file in (table.files(branch) if everywhere else table.files_by_hour(branch)[hour])
        for at, row in enumerate(pq.ParquetFile(local_path(file.file_path)).read().to_pylist())
        if row["_offset"] in offsets
    ]
    schema, data_file = table.iceberg.schema(), rows[0][0]
    if by == "pos":
        values = [[file.file_path for file, _, _ in rows], [at for _, at, _ in rows]]
        named = pa.schema([_numbered("file_path", pa.string(), 2147483546), _numbered("pos", pa.int64(), 2147483545)])
        content, columns = DataFileContent.POSITION_DELETES, None
    else:
        columns = [schema.find_field(by).field_id]
        values = [[row[by] for _, _, row in rows]]
        named = pa.schema([_numbered(by, table.arrow_schema().field(by).type, columns[0])])
        content = DataFileContent.EQUALITY_DELETES
    path = table.data_folder / f"deletes-{by}-{hour}-{'-'.join(map(str, offsets))}.parquet"
    pq.write_table(pa.table(values, named), path)
    file = DataFile.from_args(
        content=content,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record() if everywhere else data_file.partition,
        record_count=len(rows),
        file_size_in_bytes=path.stat().st_size,
        equality_ids=columns,
    )
    if everywhere:
        with table.iceberg.update_spec() as change:
            change.remove_field(HOUR_FIELD)
    file.spec_id = table.iceberg.spec().spec_id
    with table.iceberg.transaction() as transaction:
        with _DeleteFiles(Operation.DELETE, transaction, table.iceberg.io, branch=branch) as snapshot:
            snapshot.append_data_file(file)
    if everywhere:
        with table.iceberg.update_spec() as change:
            change.add_field("_timestamp", HourTransform(), HOUR_FIELD)
    return path


def _numbered(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    """Return a column that Java finds: it looks for ids."""
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """As pyiceberg does, but with ids of 32 bits: Java reads no others."""
        whole = self._with_partition(2)
        (at,) = [at for at, field in enumerate(whole.fields) if field.name == "data_file"]
        file = whole.fields[at].field_type
        assert isinstance(file, StructType)
        ids = ListType(element_id=136, element_type=IntegerType(), element_required=True)
        fields = [one.model_copy(update={"field_type": ids}) if one.name == "equality_ids" else one for one in file.fields]
        own = whole.fields[at].model_copy(update={"field_type": StructType(*fields)})
        schema = Schema(*whole.fields[:at], own, *whole.fields[at + 1 :])
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )


class _DeleteFiles(_FastAppendFiles):
    """A snapshot whose added files are delete files: pyiceberg itself writes none."""

    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        metadata = self._transaction.table_metadata
        return _DeleteManifest(spec, metadata.schema(), self.new_manifest_output(), self._snapshot_id, "deflate")
