"""Where a group is to begin, by the ways that Kafka's `kafka-consumer-groups --reset-offsets` knows. Moves nothing.

On our broker offsets are positions in bytes. `to-offset` goes to the first record at or after the position; `shift-by` counts
records. On Apache Kafka both are arithmetic, as there. Every result lies within the log.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..cluster_kind import counts_records
from ..connection.cluster import Cluster
from ..errors import ClientError
from ..fetch.fetched import TopicPartition
from ..fetch.log_offsets import EARLIEST, LATEST, log_offsets
from .record_steps import record_at, step


class NothingToShift(ClientError):
    """A partition without a committed offset, which cannot be shifted."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        super().__init__(
            f"{partition.topic}-{partition.partition}: the group never committed there, so there is nothing to shift: begin with "
            "--to-earliest, --to-latest or --to-datetime"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """One way: exactly one field is given."""

    to_time: int | None = None
    """A time in ms, or `EARLIEST`, or `LATEST`."""
    to_offset: int | None = None
    shift_by: int | None = None
    """Records."""
    each: Mapping[TopicPartition, int] | None = None
    """An offset for each partition."""


def targets(
    cluster: Cluster, partitions: Collection[TopicPartition], committed: Mapping[TopicPartition, int], reset: Reset
) -> dict[TopicPartition, int]:
    """Return each partition's new offset. Raises NothingToShift, ClientError."""
    if reset.to_time is not None:
        return log_offsets(cluster, dict.fromkeys(partitions, reset.to_time))
    starts = log_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = log_offsets(cluster, dict.fromkeys(partitions, LATEST))
    is_dense = counts_records(cluster)
    found: dict[TopicPartition, int] = {}
    for name in sorted(partitions):
        start, end = starts[name], ends[name]
        if reset.shift_by is not None:
            if name not in committed:
                raise NothingToShift(name)
            at, by = committed[name], reset.shift_by
            found[name] = _within(at + by, start, end) if is_dense else step(cluster, name, at, by, start, end)
        else:
            wanted = reset.each[name] if reset.each is not None else reset.to_offset
            assert wanted is not None
            at = _within(wanted, start, end)
            # Both ends of the log are good places; between, a reader begins at a record.
            found[name] = at if is_dense or at in (start, end) else record_at(cluster, name, at, end)
    return found


def _within(offset: int, start: int, end: int) -> int:
    return min(max(offset, start), end)
