"""Writes a Parquet file of the warehouse with other rows: in its place for the drill `swap`, beside it for the drill `table`."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Offsets = list[int]


def file_with(folder: Path, offset: int) -> Path:
    """Return the Parquet file below the folder that holds the row of this offset. Raises LookupError."""
    for path in sorted(folder.rglob("*.parquet")):
        if offset in offsets_in(path):
            return path
    raise LookupError(f"no Parquet file below {folder} holds offset {offset}")


def offsets_in(path: Path) -> Offsets:
    """Return the offsets of a file's rows, in the order of the rows."""
    found: Offsets = pq.read_table(path, columns=["_offset"], partitioning=None).column("_offset").to_pylist()
    return found


def swap(path: Path, *, without: int, doubled: int) -> None:
    """Rewrite the file without the row of one offset and with another one's twice: it has as many rows as before."""
    _rewrite(path, lambda offsets: [row for row, offset in enumerate(offsets) if offset != without] + [offsets.index(doubled)])


def copy(path: Path, *, without: int) -> Path:
    """Write the rows of the file but one into another file beside it, and return that."""
    new = path.with_name(f"drill-{path.name}")
    _write(path, new, lambda offsets: [row for row, offset in enumerate(offsets) if offset != without])
    return new


def _write(path: Path, new: Path, rows: Callable[[Offsets], list[int]]) -> None:
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.take(pa.array(rows(offsets_in(path)))), new)


def _rewrite(path: Path, rows: Callable[[Offsets], list[int]]) -> None:
    new = path.with_name(f".{path.name}.drill")
    _write(path, new, rows)
    new.replace(path)
    # Hadoop's file system keeps a checksum beside a file; a swap that left it would be detected by that file alone.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
