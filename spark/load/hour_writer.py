"""Writes rows as Parquet, one hour a file, sorted by time within each row group. Knows neither Spark nor the log.

Rows wait in memory until they are `BUFFER_BYTES`; then each hour's become a row group of its file. Rows mostly come in the order
of their time, so that few files are open at once; the one not written to for longest is closed when they are too many, and its
hour continues in a file of its own.
"""

import hashlib
import io
import os
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..source.columns import HOUR_FIELD, HOUR_US
from ..warehouse.hours import BEFORE_1970
from ..warehouse.store import StorePath, writer

BUFFER_BYTES = 96 << 20
MOST_OPEN_FILES = 32
MOST_FILE_ROWS = 2_000_000
ZSTD_LEVEL = 3
"""As Spark's: a tenth smaller than at 1, for no more time."""


class FileCheck(NamedTuple):
    """What was written as one file, as its writer saw it."""

    sha256: str
    size_bytes: int
    row_count: int


class _Sink(io.RawIOBase):
    """Passes bytes on to a file, and hashes them: what the store has is compared with what was meant, not with itself."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self._file.write(data)
        self.size_bytes += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


@dataclass(slots=True)
class _File:
    path: StorePath
    writer: pq.ParquetWriter
    sink: _Sink
    row_count: int = 0

    def close(self) -> None:
        try:
            self.writer.close()
        finally:
            self.sink.close()


class HourWriter:
    """The files of one task. Not for two threads."""

    def __init__(
        self,
        folder: StorePath,
        schema: pa.Schema,
        *,
        name: str,
        hours: Collection[int] | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        most_open_files: int = MOST_OPEN_FILES,
        most_file_rows: int = MOST_FILE_ROWS,
    ) -> None:
        """Files become `<folder>/_timestamp-hour=<hour>/<name>-<random>.parquet`. `hours`: rows of others are left out."""
        self._folder = folder
        self._schema = schema
        self._with_dictionary = [one.name for one in schema if one.name != "_offset" and not pa.types.is_timestamp(one.type)]
        self._name = name
        self._hours = hours
        self._buffer_bytes = buffer_bytes
        self._most_open_files = most_open_files
        self._most_file_rows = most_file_rows
        self._waiting: dict[int, list[pa.RecordBatch]] = {}
        self._waiting_bytes = 0
        self._open: OrderedDict[int, _File] = OrderedDict()
        self._paths: list[StorePath] = []
        self.checks: dict[StorePath, FileCheck] = {}
        """Of the files that are closed."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows of any hours."""
        for hour, some in _by_hour(rows):
            if self._hours is None or max(hour, BEFORE_1970) in self._hours:
                self._waiting.setdefault(hour, []).append(some)
                self._waiting_bytes += some.nbytes
        if self._waiting_bytes >= self._buffer_bytes:
            self._write()

    def finish(self) -> list[StorePath]:
        """Write what waits, close the files, and return them in the order in which they were begun."""
        self._write()
        while self._open:
            self._close_oldest()
        return self._paths

    def abandon(self) -> None:
        """Close what is open, after an error; the files are of no use."""
        while self._open:
            self._close_oldest()

    def _write(self) -> None:
        for hour, batches in sorted(self._waiting.items()):
            table = _in_order(pa.Table.from_batches(batches, schema=self._schema))
            for begin in range(0, table.num_rows, self._most_file_rows):
                part = table.slice(begin, self._most_file_rows)
                file = self._file(hour, part.num_rows)
                file.writer.write_table(part, row_group_size=part.num_rows)
                file.row_count += part.num_rows
        self._waiting = {}
        self._waiting_bytes = 0

    def _file(self, hour: int, row_count: int) -> _File:
        found = self._open.get(hour)
        if found is not None and found.row_count + row_count <= self._most_file_rows:
            self._open.move_to_end(hour)
            return found
        if found is not None:
            self._close(self._open.pop(hour))
        if len(self._open) >= self._most_open_files:
            self._close_oldest()
        # A name of its own for each attempt: a task that runs twice never writes into the other's file.
        path = self._folder / f"{HOUR_FIELD}={hour}" / f"{self._name}-{os.urandom(8).hex()}.parquet"
        # Decimals as pyiceberg writes them. Times and offsets hardly repeat: they are smaller, and sooner written, as they are.
        sink = _Sink(writer(path))
        parquet = pq.ParquetWriter(
            sink,
            self._schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            store_decimal_as_integer=True,
            use_dictionary=self._with_dictionary,
        )
        self._paths.append(path)
        self._open[hour] = found = _File(path, parquet, sink)
        return found

    def _close_oldest(self) -> None:
        _, oldest = self._open.popitem(last=False)
        self._close(oldest)

    def _close(self, file: _File) -> None:
        file.close()
        self.checks[file.path] = FileCheck(file.sink.sha256, file.sink.size_bytes, file.row_count)


def _by_hour(rows: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
    if not rows.num_rows:
        return []
    hours = _times_us(rows) // HOUR_US
    first = int(hours[0])
    if (hours == first).all():
        return [(first, rows)]
    return [(int(hour), rows.filter(pa.array(hours == hour))) for hour in np.unique(hours)]


def _in_order(table: pa.Table) -> pa.Table:
    times = _times_us(table)
    if (times[1:] >= times[:-1]).all():
        return table
    return table.take(pa.array(np.argsort(times, kind="stable")))


def _times_us(rows: pa.RecordBatch | pa.Table) -> NDArray[np.int64]:
    return np.asarray(rows.column("_timestamp").cast("int64"))
