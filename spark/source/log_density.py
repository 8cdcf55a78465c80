"""How many bytes one offset stands for: what a split of a log is measured by."""

from collections.abc import Sequence

from ...client.cluster_kind import counts_records
from ...client.connection.cluster import Cluster
from ...client.fetch.read_range import read_range
from ...client.security.chosen import named_for
from .offset_ranges import OffsetRange

GUESS_BYTES = 200
"""Of a record, where the log has no readable one."""


def bytes_per_offset(bootstrap: str, topic: str, ranges: Sequence[OffsetRange], client_config: str | None = None) -> int:
    """Return 1 for a byte-addressed log; for one that counts records, about the bytes of a record, by the first batch of the
    longest range. At least 1. Raises the client's errors.
    """
    cluster = Cluster(bootstrap, client_id="headrace-load", security=named_for(bootstrap, client_config))
    try:
        return bytes_per_record(cluster, topic, ranges) if counts_records(cluster) else 1
    finally:
        cluster.close()


def bytes_per_record(cluster: Cluster, topic: str, ranges: Sequence[OffsetRange]) -> int:
    """Return about the bytes of a record, by the first batch of the longest range. At least 1. Raises the client's errors."""
    longest = max(ranges, key=lambda one: one.span, default=None)
    if longest is None or not longest.span:
        return GUESS_BYTES
    batches = read_range(cluster, topic, longest.partition, longest.from_offset, longest.to_offset, on_corrupt=lambda bad: None)
    for header, _ in batches:
        if header.record_count and not header.is_control:
            return max(1, header.size_bytes // header.record_count)
    return GUESS_BYTES
