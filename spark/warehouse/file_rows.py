"""What is in a Parquet file of the warehouse: which records, and the digest of their content.

Reads the files themselves, not what a load said of them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...audit.model.messages import Stretch
from ..errors import WarehouseError
from ..source.digest import RowHashes, row_hashes
from ..source.offset_ranges import OffsetRange
from ..source.split_reader import window_starts
from .object_path import ObjectPath
from .store import StorePath, fetched

BATCH_ROWS = 65_536
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows as columns of the same length, in no order."""

    partitions: Numbers
    offsets: Numbers
    windows: Numbers
    """Window start in milliseconds."""
    hashes: RowHashes

    def __len__(self) -> int:
        return len(self.offsets)

    def where(self, mask: NDArray[np.bool_]) -> "Rows":
        return Rows(
            partitions=self.partitions[mask],
            offsets=self.offsets[mask],
            windows=self.windows[mask],
            hashes=RowHashes(self.hashes.high[mask], self.hashes.low[mask]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One file as it was when it was read; what a proof says of it."""

    size_bytes: int
    mtime_ns: int
    sha256: str
    row_count: int
    digest: int
    partitions: Mapping[int, tuple[int, int, int]]
    """Partition → first offset, offset after the last, rows."""
    etag: str = ""
    """The object store's own mark of the content; empty on a disk."""

    def is_still(self, path: StorePath) -> bool:
        """Return whether the file has the size and the time of change that it had: then it was not written to.

        Raises StoreUnreachable.
        """
        try:
            now = path.stat()
        except OSError:
            return False
        return (now.st_size, now.st_mtime_ns) == (self.size_bytes, self.mtime_ns)

    def as_json(self) -> dict[str, Any]:
        return {
            "size_bytes": self.size_bytes,
            "mtime_ns": self.mtime_ns,
            "sha256": self.sha256,
            "row_count": self.row_count,
            "digest": f"{self.digest:032x}",
            "partitions": {str(partition): list(one) for partition, one in self.partitions.items()},
            **({"etag": self.etag} if self.etag else {}),
        }

    @classmethod
    def of_json(cls, words: Mapping[str, Any]) -> "FileFacts":
        return cls(
            size_bytes=words["size_bytes"],
            mtime_ns=words["mtime_ns"],
            sha256=words["sha256"],
            row_count=words["row_count"],
            digest=int(words["digest"], 16),
            partitions={int(name): (first, end, count) for name, (first, end, count) in words["partitions"].items()},
            etag=words.get("etag", ""),
        )


def read_file(path: StorePath) -> tuple[FileFacts, Rows]:
    """Return the facts and the rows of a file.

    Raises FileNotFoundError, WarehouseError for a file that cannot be read, StoreUnreachable.
    """
    try:
        before, etag = path.stat(), path.etag() if isinstance(path, ObjectPath) else ""
        with fetched(path) as here:
            rows, sha256 = _joined(list(_batches(here.path))), here.sha256
        found = FileFacts(
            size_bytes=before.st_size,
            mtime_ns=before.st_mtime_ns,
            sha256=sha256,
            row_count=len(rows),
            digest=rows.hashes.total(),
            partitions=partitions_of(rows),
            etag=etag,
        )
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, KeyError, TypeError) as error:
        raise WarehouseError(f"{path} cannot be read as rows of the warehouse: {type(error).__name__}: {error}") from error
    return found, rows


def read_offsets(path: StorePath, left: Callable[[int], NDArray[np.bool_] | None] = lambda _: None) -> dict[int, Numbers]:
    """Return partition → the offsets of a file's rows, in order: two columns are read. Raises as `read_file`.

    `left`: number of rows → which of them readers get; None: all.
    """
    try:
        with fetched(path) as here, pq.ParquetFile(here.path) as file:
            rows = file.read(columns=["_topic_partition", "_offset"])
        partitions, offsets = np.asarray(rows["_topic_partition"]), np.asarray(rows["_offset"])
        mask = left(len(rows))
        if mask is not None:
            partitions, offsets = partitions[mask], offsets[mask]
        return {int(one): np.sort(offsets[partitions == one]) for one in np.unique(partitions)}
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, KeyError, TypeError) as error:
        raise WarehouseError(f"{path} cannot be read as rows of the warehouse: {type(error).__name__}: {error}") from error


def _batches(path: Path) -> Iterator[Rows]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            yield rows_of(batch)


def rows_of(batch: pa.RecordBatch) -> Rows:
    return Rows(
        partitions=np.asarray(batch.column("_topic_partition").cast("int64")),
        offsets=np.asarray(batch.column("_offset")),
        windows=window_starts(batch),
        hashes=row_hashes(batch),
    )


def _joined(parts: list[Rows]) -> Rows:
    def joined(columns: list[Any], kind: Any) -> Any:
        return np.concatenate([np.zeros(0, kind), *columns])

    return Rows(
        partitions=joined([one.partitions for one in parts], np.int64),
        offsets=joined([one.offsets for one in parts], np.int64),
        windows=joined([one.windows for one in parts], np.int64),
        hashes=RowHashes(
            joined([one.hashes.high for one in parts], np.uint64), joined([one.hashes.low for one in parts], np.uint64)
        ),
    )


def in_range(rows: Rows, within: OffsetRange) -> NDArray[np.bool_]:
    """Return which rows have an offset of the range."""
    mask: NDArray[np.bool_] = (
        (rows.partitions == within.partition) & (rows.offsets >= within.from_offset) & (rows.offsets < within.to_offset)
    )
    return mask


def no_rows() -> Rows:
    return _joined([])


def join_rows(parts: list[Rows]) -> Rows:
    """Return the rows of all parts."""
    return _joined(parts)


def partitions_of(rows: Rows) -> dict[int, tuple[int, int, int]]:
    """Return partition → first offset, offset after the last, rows."""
    found = {}
    for partition in np.unique(rows.partitions):
        offsets = rows.offsets[rows.partitions == partition]
        found[int(partition)] = (int(offsets.min()), int(offsets.max()) + 1, len(offsets))
    return found


def stretches(offsets: Numbers) -> list[Stretch]:
    """Return the records at these offsets as stretches, in order; an offset that is there twice is returned twice."""
    if not len(offsets):
        return []
    ordered = np.sort(offsets)
    begins = np.concatenate([[0], np.flatnonzero(np.diff(ordered) != 1) + 1])
    counts = np.diff(np.concatenate([begins, [len(ordered)]]))
    return [Stretch(int(ordered[begin]), int(count)) for begin, count in zip(begins, counts, strict=True)]
