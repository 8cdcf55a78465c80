"""Steps by whole records in a log whose offsets are positions in bytes. Reads batch headers; opens no batch.

An offset between two batches names no record: every result here is a record's own offset, or the log's end.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ..connection.cluster import Cluster
from ..fetch.fetched import TopicPartition
from ..fetch.read_range import read_range

FIRST_WINDOW_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """What a reader has not read yet."""

    records: int
    is_estimate: bool
    """More bytes are unread than were counted: the rest is taken to be like them."""
    behind_ms: int | None
    """From the first unread batch's time to the newest record's; None without an unread record."""
    read_bytes: int


def record_at(cluster: Cluster, name: TopicPartition, offset: int, log_end: int) -> int:
    """Return the offset of the first record at or after `offset`, else `log_end`. Raises ClientError."""
    return next((max(first, offset) for first, _ in _runs(cluster, name, offset, log_end)), log_end)


def step(cluster: Cluster, name: TopicPartition, offset: int, by: int, log_start: int, log_end: int) -> int:
    """Return where a reader at `offset` is after `by` records, or before them (`by` < 0); stops at the log's borders."""
    offset = min(max(offset, log_start), log_end)
    if by >= 0:
        for first, end in _runs(cluster, name, offset, log_end):
            first = max(first, offset)
            if by < end - first:
                return first + by
            by -= end - first
        return log_end
    return _back(cluster, name, offset, -by, log_start)


def count(cluster: Cluster, name: TopicPartition, offset: int, log_end: int) -> int:
    """Return how many records are at or after `offset`. Reads all of them. Raises ClientError."""
    return sum(end - max(first, offset) for first, end in _runs(cluster, name, offset, log_end))


def unread(cluster: Cluster, name: TopicPartition, offset: int, log_end: int, *, most_bytes: int) -> Unread:
    """Return how many records are at or after `offset`, and how far they are behind in their own time.

    Reads about `most_bytes` at most, and the log's last megabyte for the newest time. Raises ClientError.
    """
    records, read_records, read_bytes, read_to, oldest, newest = 0, 0, 0, offset, None, None
    for header, _ in read_range(cluster, name.topic, name.partition, offset, log_end, on_corrupt=lambda _bad: None):
        read_to = max(read_to, min(header.next_offset, log_end))
        read_bytes += header.size_bytes
        if not header.is_control and header.record_count:
            records += header.next_offset - max(header.base_offset, offset)
            read_records += header.next_offset - header.base_offset
            oldest = header.base_timestamp_ms if oldest is None else oldest
            newest = header.max_timestamp_ms if newest is None else max(newest, header.max_timestamp_ms)
        if read_bytes >= most_bytes:
            break
    is_estimate = read_to < log_end
    if is_estimate and read_bytes:
        records += read_records * (log_end - read_to) // read_bytes
        tail = max(read_to, log_end - FIRST_WINDOW_BYTES)
        for header, _ in read_range(cluster, name.topic, name.partition, tail, log_end, on_corrupt=lambda _bad: None):
            newest = header.max_timestamp_ms if newest is None else max(newest, header.max_timestamp_ms)
    behind = None if oldest is None or newest is None else max(0, newest - oldest)
    return Unread(records=records, is_estimate=is_estimate, behind_ms=behind, read_bytes=read_bytes)


def _back(cluster: Cluster, name: TopicPartition, offset: int, by: int, log_start: int) -> int:
    window = FIRST_WINDOW_BYTES
    while True:
        begin = max(log_start, offset - window)
        runs = [(first, min(end, offset)) for first, end in _runs(cluster, name, begin, offset) if first < offset]
        left = by
        for first, end in reversed(runs):
            if left <= end - first:
                return end - left
            left -= end - first
        if begin == log_start:
            return runs[0][0] if runs else log_start
        window *= 4


def _runs(cluster: Cluster, name: TopicPartition, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the offsets [first, end) of each batch's records between two offsets. The first batch may begin before."""
    # A range that rotted holds nothing that a reader would get.
    for header, _ in read_range(cluster, name.topic, name.partition, begin, end, on_corrupt=lambda _bad: None):
        if not header.is_control and header.record_count:
            yield header.base_offset, header.next_offset
