"""Compares both logs where the copy continues: their ends, and the destination's last batch with the source's at that offset.

A source that lost its tail and was written to again may end after the destination. Only the bytes show the difference. Costs two
small reads per partition, each time copying begins.
"""

from collections.abc import Iterator, Mapping

from ..client.connection.cluster import Cluster
from ..client.errors import OffsetOutOfRange
from ..client.fetch.fetched import TopicPartition
from ..client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from ..client.fetch.read_range import read_range
from ..wire.batch.record_batch import BatchHeader
from .partition_copy import Ends, TailComparison

LOOK_BACK_BYTES = 256 * 1024
TIMEOUT_MS = 5_000


def ends(source: Cluster, destination: Cluster, there: Mapping[TopicPartition, TopicPartition]) -> dict[TopicPartition, Ends]:
    """Read where both logs begin and end; `there`: partition → its name in the destination. Raises ClientError."""
    # The destination first. A late request of a dead mirror may append meanwhile; in the other order that would look like a
    # source that lost its tail.
    destination_end = log_offsets(destination, dict.fromkeys(there.values(), LATEST))
    destination_start = log_offsets(destination, dict.fromkeys(there.values(), EARLIEST))
    source_start = log_offsets(source, dict.fromkeys(there, EARLIEST))
    source_end = log_offsets(source, dict.fromkeys(there, LATEST))
    return {
        here: Ends(
            source_start=source_start[here],
            source_end=source_end[here],
            destination_start=destination_start[name],
            destination_end=destination_end[name],
        )
        for here, name in there.items()
    }


def compare(
    source: Cluster, destination: Cluster, name: TopicPartition, there: TopicPartition, *, start: int, end: int
) -> TailComparison:
    """Compare the destination's last batch with the source's; the destination's log is [start, end). Raises ClientError."""
    if start >= end:
        return TailComparison.UNKNOWN
    last = _last_batch(destination, *there, start, end)
    if last is None:
        return TailComparison.UNKNOWN
    try:
        found = next(_headers(source, *name, last.position, last.next_offset), None)
    except OffsetOutOfRange:
        return TailComparison.UNKNOWN
    if found is None or found.position >= last.next_offset:
        # The source cannot serve the range: this proves nothing.
        return TailComparison.UNKNOWN
    same = (found.base_offset, found.size_bytes, found.crc) == (last.base_offset, last.size_bytes, last.crc)
    return TailComparison.SAME if same else TailComparison.DIFFERENT


def _last_batch(cluster: Cluster, topic: str, partition: int, start: int, end: int) -> BatchHeader | None:
    """Return the last readable batch before `end`. It nearly always ends there; if not, look further back each time."""
    reach = 1
    while True:
        begin = max(start, end - reach)
        last = None
        for header in _headers(cluster, topic, partition, begin, end):
            last = header
        if last is not None or begin == start:
            return last
        reach = max(LOOK_BACK_BYTES, reach * 8)


def _headers(cluster: Cluster, topic: str, partition: int, begin: int, end: int) -> Iterator[BatchHeader]:
    # Batches that fail their check are passed over: other parts report damage, and it does not show that the logs differ.
    for header, _ in read_range(cluster, topic, partition, begin, end, on_corrupt=lambda bad: None, timeout_ms=TIMEOUT_MS):
        yield header
