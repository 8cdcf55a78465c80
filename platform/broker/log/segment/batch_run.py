"""Batches that are appended in one write: placed, checked, without holes between them. Plain values."""

from collections.abc import Sequence
from typing import NamedTuple


class BatchRun(NamedTuple):
    """One write at the log end; not empty. `positions` and `max_timestamps_ms` have one entry a batch."""

    pieces: Sequence[bytes | memoryview]
    """The bytes, in order; at most `MOST_PIECES`. A batch may be divided into several."""
    positions: Sequence[int]
    """Where each batch begins."""
    max_timestamps_ms: Sequence[int]
    end_offset: int
    """After the last batch."""
    producer_id: int
    """-1: no batch has an idempotent producer."""
    sequences: Sequence[tuple[int, int, int]]
    """Base sequence, record count and base offset of each batch of that producer."""


MOST_PIECES = 1_024
"""The limit of pwritev(2): IOV_MAX."""
