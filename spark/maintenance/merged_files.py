"""Writes the rows of some files of an hour as few files, and proves from the files themselves that they are the same rows.

Rows go batch by batch through the writer of the loads: sorted by time within each row group. Not more than a buffer of rows, and
the eight numbers of each row of one file, are in memory. What is compared is, by partition and window, the number of rows and the
sum of their digests, before and after; after is read back from the store.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile

from ..errors import CompactionUnproven
from ..load.hour_writer import BUFFER_BYTES, HourWriter
from ..source.digest import MODULUS
from ..warehouse.file_rows import BATCH_ROWS, FileFacts, Rows, read_file, rows_of
from ..warehouse.store import StorePath, fetched
from .file_choice import MOST_FILE_ROWS
from .projection import project


@dataclass(slots=True)
class Sums:
    """What is in files: (partition, window) → rows and digest."""

    found: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def add(self, rows: Rows) -> None:
        for partition in map(int, set(rows.partitions.tolist())):
            mine = rows.where(rows.partitions == partition)
            for start, digest in mine.hashes.totals(mine.windows).items():
                count, before = self.found.get((partition, int(start)), (0, 0))
                here = int((mine.windows == start).sum())
                self.found[partition, int(start)] = (count + here, (before + digest) % MODULUS)

    @property
    def row_count(self) -> int:
        return sum(count for count, _ in self.found.values())

    @property
    def digest(self) -> int:
        return sum(digest for _, digest in self.found.values()) % MODULUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The new files of an hour."""

    facts: Mapping[StorePath, FileFacts]
    """As they were read back."""
    sums: Sums


def read_sums(files: Sequence[DataFile], path_of: Callable[[DataFile], StorePath]) -> Sums:
    """Return what is in the files. Raises FileNotFoundError, WarehouseError, StoreUnreachable."""
    found = Sums()
    for file in files:
        for batch in _batches(path_of(file), None):
            found.add(rows_of(batch))
    return found


def merge(
    topic: str,
    files: Sequence[DataFile],
    *,
    path_of: Callable[[DataFile], StorePath],
    folder: StorePath,
    schema: pa.Schema,
    target_bytes: int,
    checksums: Mapping[str, str],
    buffer_bytes: int = BUFFER_BYTES,
) -> Merged:
    """Write the rows of `files`, one after another, into `folder`.

    `checksums`: path as the table names it → SHA-256 that it must have.

    Raises CompactionUnproven, FileNotFoundError, StoreUnreachable; what was written is of no use then.
    """
    before = Sums()
    files_out = _Files(folder, schema, _rows_a_file(files, target_bytes), buffer_bytes)
    try:
        for file in files:
            for batch in _batches(path_of(file), checksums.get(file.file_path)):
                before.add(rows_of(batch))
                files_out.add(project(batch, schema))
        files_out.close()
    except BaseException:
        files_out.abandon()
        raise
    after, facts = Sums(), {}
    for path in files_out.paths:
        facts[path], rows = read_file(path)
        after.add(rows)
    if after.found != before.found or before.row_count != sum(file.record_count for file in files):
        raise CompactionUnproven(topic, f"{before.row_count} rows were read, and the new files hold {after.row_count} or others")
    return Merged(facts=facts, sums=after)


class _Files:
    """Files of equal numbers of rows, one after another."""

    def __init__(self, folder: StorePath, schema: pa.Schema, rows_a_file: int, buffer_bytes: int) -> None:
        self._folder, self._schema, self._rows_a_file, self._buffer_bytes = folder, schema, rows_a_file, buffer_bytes
        self._writer: HourWriter | None = None
        self._rows = 0
        self.paths: list[StorePath] = []

    def add(self, rows: pa.RecordBatch) -> None:
        while rows.num_rows:
            if self._writer is None:
                words: dict[str, Any] = {"buffer_bytes": self._buffer_bytes, "most_file_rows": self._rows_a_file}
                self._writer, self._rows = HourWriter(self._folder, self._schema, name="merged", **words), 0
            part = rows.slice(0, self._rows_a_file - self._rows)
            self._writer.add(part)
            self._rows += part.num_rows
            rows = rows.slice(part.num_rows)
            if self._rows == self._rows_a_file:
                self.close()

    def close(self) -> None:
        if self._writer is not None:
            self.paths += self._writer.finish()
            self._writer = None

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.abandon()


def _batches(path: StorePath, sha256: str | None) -> Iterator[pa.RecordBatch]:
    with fetched(path) as here:
        if sha256 is not None and here.sha256 != sha256:
            raise CompactionUnproven(str(path), "it is not the file that was proven")
        try:
            with pq.ParquetFile(here.path) as opened:
                yield from opened.iter_batches(batch_size=BATCH_ROWS)
        except (OSError, pa.ArrowException) as error:
            raise CompactionUnproven(str(path), f"it cannot be read: {type(error).__name__}: {error}") from error


def _rows_a_file(files: Sequence[DataFile], target_bytes: int) -> int:
    """Return how many rows make a file of the target size, if they take as much room as they do now."""
    rows, size = sum(file.record_count for file in files), sum(file.file_size_in_bytes for file in files)
    count = max(1, -(-size // target_bytes), -(-rows // MOST_FILE_ROWS))
    return max(1, -(-rows // count))
