"""Counts the rows in a load's Parquet files, per partition and window.

Reads the files themselves, not the load's own counts.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...audit.model.windows import WINDOW_MS
from ..errors import WarehouseError
from ..source.offset_ranges import OffsetRange

BATCH_ROWS = 65_536


def count_written(files: Sequence[Path], ranges: Sequence[OffsetRange], window_ms: int = WINDOW_MS) -> dict[int, dict[int, int]]:
    """Return partition → window start (ms) → rows.

    Raises WarehouseError for a row outside `ranges`: it would be counted for the offsets of another load.
    """
    bounds = {one.partition: one for one in ranges}
    counts: dict[int, dict[int, int]] = {}
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=["_partition", "_offset", "_timestamp"]):
                partitions = batch.column("_partition").to_numpy(zero_copy_only=False)
                offsets = batch.column("_offset").to_numpy(zero_copy_only=False)
                micros = batch.column("_timestamp").cast("int64").to_numpy(zero_copy_only=False)
                for partition in np.unique(partitions):
                    mine = partitions == partition
                    _check(path, bounds.get(int(partition)), int(partition), offsets[mine])
                    _add(counts.setdefault(int(partition), {}), micros[mine] // 1_000, window_ms)
    return counts


def _add(windows: dict[int, int], timestamps_ms: NDArray[np.int64], window_ms: int) -> None:
    # The same rule as audit.model.windows.window_start_ms: all times before 1970 are one window.
    starts = np.where(timestamps_ms < 0, -window_ms, timestamps_ms - timestamps_ms % window_ms)
    for start, count in zip(*np.unique(starts, return_counts=True), strict=True):
        windows[int(start)] = windows.get(int(start), 0) + int(count)


def _check(path: Path, bounds: OffsetRange | None, partition: int, offsets: NDArray[np.int64]) -> None:
    low, high = int(np.min(offsets)), int(np.max(offsets))
    if bounds is None or low < bounds.from_offset or high >= bounds.to_offset:
        raise WarehouseError(
            f"{path} holds offsets {low} to {high} of partition {partition}, and its load read "
            f"{bounds or 'nothing of that partition'}: the file is not that load's, nothing is reported"
        )
