"""Batches that came together and are appended together: placed, checked, one behind the other without a hole. Plain values."""

from collections.abc import Sequence
from typing import NamedTuple


class BatchRun(NamedTuple):
    """What one write puts at the log end. Lists of the same length, but for `pieces` and `sequences`; not empty."""

    pieces: Sequence[bytes | memoryview]
    """The bytes, in order; at most `MOST_PIECES`. A batch may be in several."""
    positions: Sequence[int]
    """Where each batch begins."""
    max_timestamps_ms: Sequence[int]
    end_offset: int
    """After the last batch."""
    producer_id: int
    """-1: none of the batches has an idempotent producer."""
    sequences: Sequence[tuple[int, int, int]]
    """Base sequence, record count and base offset of each batch of that producer."""


MOST_PIECES = 1_024
"""What pwritev(2) takes at once (IOV_MAX)."""
