"""Rows of the branch `loads` at offsets that no load has reported: other programs added them. Pure.

Only these offsets are reported to the audit, so that nothing is claimed about offsets that no load has read.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from ...source.offset_ranges import OffsetRange
from ...warehouse.file_rows import Numbers, Rows, stretches

MOST_RANGES = 1_000
"""Of one partition. Beyond it, neighbouring ranges are reported as one."""


class Spoken:
    """The offsets of which some load has spoken."""

    def __init__(self, ranges: Iterable[OffsetRange]) -> None:
        self._ranges: dict[int, tuple[Numbers, Numbers]] = {}
        by_partition: dict[int, list[tuple[int, int]]] = {}
        for one in ranges:
            by_partition.setdefault(one.partition, []).append((one.from_offset, one.to_offset))
        for partition, mine in by_partition.items():
            if joined := _joined(mine):
                self._ranges[partition] = np.array([one[0] for one in joined]), np.array([one[1] for one in joined])

    def others(self, rows: Rows) -> Rows:
        """Return the rows at other offsets."""
        known = np.zeros(len(rows), np.bool_)
        for partition, (begins, ends) in self._ranges.items():
            at = np.searchsorted(begins, rows.offsets, "right") - 1
            known |= (rows.partitions == partition) & (at >= 0) & (rows.offsets < ends[at])
        return rows if not known.any() else rows.where(~known)

    def without(self, one: OffsetRange) -> list[OffsetRange]:
        """Return what of a range no load has spoken of."""
        begins, ends = self._ranges.get(one.partition, ((), ()))
        left, at = [], one.from_offset
        for begin, end in zip(map(int, begins), map(int, ends), strict=True):
            if end <= at or begin >= one.to_offset:
                continue
            if begin > at:
                left.append(OffsetRange(partition=one.partition, from_offset=at, to_offset=begin))
            at = end
        if at < one.to_offset:
            left.append(OffsetRange(partition=one.partition, from_offset=at, to_offset=one.to_offset))
        return left


def ranges_of(rows: Rows) -> list[OffsetRange]:
    """Return the ranges that the rows fill."""
    found: list[OffsetRange] = []
    for partition in map(int, np.unique(rows.partitions)):
        filled = [(one.first, one.end) for one in stretches(np.unique(rows.offsets[rows.partitions == partition]))]
        found += [OffsetRange(partition=partition, from_offset=a, to_offset=b) for a, b in _at_most(filled, MOST_RANGES)]
    return found


def together(parts: Iterable[Sequence[OffsetRange]]) -> list[OffsetRange]:
    """Return the offsets of all as ranges that do not touch."""
    by_partition: dict[int, list[tuple[int, int]]] = {}
    for part in parts:
        for one in part:
            by_partition.setdefault(one.partition, []).append((one.from_offset, one.to_offset))
    return [
        OffsetRange(partition=partition, from_offset=begin, to_offset=end)
        for partition, mine in sorted(by_partition.items())
        for begin, end in _joined(mine)
    ]


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif begin < end:
            found.append((begin, end))
    return found


def _at_most(spans: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Return the spans; where they are too many, the nearest ones as one."""
    if len(spans) <= most:
        return spans
    gaps = sorted((after[0] - before[1] for before, after in pairwise(spans)), reverse=True)
    least = gaps[most - 2] if most > 1 else gaps[0] + 1
    found = [spans[0]]
    left = most - 1
    for begin, end in spans[1:]:
        if begin - found[-1][1] >= least and left:
            found.append((begin, end))
            left -= 1
        else:
            found[-1] = (found[-1][0], end)
    return found
