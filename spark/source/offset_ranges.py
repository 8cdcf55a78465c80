"""The offsets that a task reads: half-open ranges of one partition, cut into splits. Pure.

A cut may fall anywhere: inside a batch, in the gap before one, in a hole. This is safe, because every record has exactly one
offset (its batch's base + its index), and a split yields exactly the records whose offset is in it. Both neighbours fetch a batch
across a cut, and each takes its own part. This holds for byte offsets (a span is then about that many bytes) and for dense ones.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import WarehouseError


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OffsetRange:
    """The offsets [from_offset, to_offset) of one partition."""

    partition: int
    from_offset: int
    to_offset: int

    @property
    def span(self) -> int:
        return self.to_offset - self.from_offset


def split_ranges(
    ranges: Sequence[OffsetRange],
    *,
    splits: int,
    min_span: int = 1 << 20,
    max_span: int = 64 << 20,
    bytes_per_offset: int = 1,
) -> list[OffsetRange]:
    """Return `ranges` cut into about `splits` parts of equal span, none longer than `max_span`, none cut below `min_span`.

    Together the parts cover exactly what `ranges` cover, without overlap; empty ranges are left out. `max_span` bounds what one
    task reads. `min_span` keeps tasks from being smaller than their own cost. If the two disagree, `max_span` wins. Both are
    bytes; in a log that counts records, `bytes_per_offset` are those of a record.
    """
    min_span, max_span = max(1, min_span // bytes_per_offset), max(1, max_span // bytes_per_offset)
    total = sum(one.span for one in ranges)
    target = max(1, min(max_span, max(min_span, -(-total // max(1, splits)))))
    found: list[OffsetRange] = []
    for one in ranges:
        count = -(-one.span // target)
        for index in range(count):
            begin = one.from_offset + one.span * index // count
            end = one.from_offset + one.span * (index + 1) // count
            found.append(OffsetRange(partition=one.partition, from_offset=begin, to_offset=end))
    return found


def packed(
    splits: Sequence[OffsetRange], *, tasks: int, min_span: int = 1 << 20, bytes_per_offset: int = 1
) -> list[list[OffsetRange]]:
    """Return the splits in about `tasks` groups of neighbours, so that small ones share a task and its files. No group but one of
    a single split spans more than `min_span` bytes, or than its share of them all.
    """
    most = max(min_span // bytes_per_offset, -(-sum(one.span for one in splits) // max(1, tasks)))
    found: list[list[OffsetRange]] = []
    span = 0
    for one in splits:
        if not found or span + one.span > most:
            found.append([])
            span = 0
        found[-1].append(one)
        span += one.span
    return found


def ranges_to_json(ranges: Sequence[OffsetRange]) -> str:
    """Return `[[partition, from, to], ...]`, the form of the Data Source's option `ranges`."""
    return json.dumps([[one.partition, one.from_offset, one.to_offset] for one in ranges], separators=(",", ":"))


def ranges_from_json(text: str) -> list[OffsetRange]:
    """Return the ranges of `ranges_to_json`'s text. Raises WarehouseError for any other text, and for a range that ends before
    it begins.
    """
    try:
        found = [OffsetRange(partition=int(p), from_offset=int(begin), to_offset=int(end)) for p, begin, end in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise WarehouseError(f"ranges={text[:200]!r} is not [[partition, from_offset, to_offset], ...]: {error}") from error
    for one in found:
        if one.partition < 0 or not 0 <= one.from_offset <= one.to_offset:
            raise WarehouseError(
                f"ranges: partition {one.partition} from {one.from_offset} to {one.to_offset} is not a range of offsets"
            )
    return found


def new_ranges(
    *, loaded: Mapping[int, int], log_start: Mapping[int, int], log_end: Mapping[int, int], topic: str
) -> list[OffsetRange]:
    """Return the offsets of the log that are not loaded yet, by partition; a partition with nothing new has no range, one whose
    new records have all expired an empty one.

    If the log starts after the loaded offset (records expired before they were loaded; before the first load, too), the range
    begins at the log's start: the gap stays visible in the ranges. Raises WarehouseError if the table has offsets that the log
    has not reached: then it is another log, or one that lost its tail.
    """
    found = []
    for partition in sorted(log_end):
        known = loaded.get(partition, 0)
        begin = max(known, log_start[partition])
        if known > log_end[partition]:
            raise WarehouseError(
                f"the table of {topic!r} has loaded partition {partition} up to {known} and the log ends at "
                f"{log_end[partition]}: wait until the mirror has refilled it; if this is another cluster, use another warehouse"
            )
        if begin < log_end[partition] or known < begin:
            found.append(OffsetRange(partition=partition, from_offset=begin, to_offset=log_end[partition]))
    return found
