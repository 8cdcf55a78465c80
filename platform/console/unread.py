"""Lag in records and in time. Offsets of our broker are positions in bytes, so the headers of unread batches are counted."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..client.cluster_kind import counts_records
from ..client.connection.cluster import Cluster
from ..client.errors import ClientError
from ..client.fetch.fetched import TopicPartition
from ..client.groups import record_steps
from ..client.groups.group_admin import Lag

COUNTED_BYTES = 32 << 20
"""So much of unread records one page reads to count them; beyond it, it estimates."""
NOT_COUNTED: Mapping[str, Any] = {"records": None, "is_estimate": False, "behind_ms": None}


def counted(cluster: Cluster, lags: Iterable[Lag]) -> dict[TopicPartition, dict[str, Any]]:
    """Return each partition's lag in `records` (None: not known), whether that `is_estimate`, and `behind_ms` in the records' own
    time. Raises ClientError if the cluster does not answer.
    """
    is_dense = counts_records(cluster)
    left = COUNTED_BYTES
    found = {}
    for one in lags:
        more = found[one.partition] = {**NOT_COUNTED, "records": one.lag if is_dense else None}
        if one.lag == 0:
            more.update(records=0, behind_ms=0)
        elif one.lag and one.committed is not None and one.log_end is not None and left > 0:
            at = max(one.committed, one.log_start or 0)
            try:
                unread = record_steps.unread(cluster, one.partition, at, one.log_end, most_bytes=left)
            except ClientError:
                continue
            left -= unread.read_bytes
            more["behind_ms"] = unread.behind_ms
            if not is_dense:
                more.update(records=unread.records, is_estimate=unread.is_estimate)
    return found
