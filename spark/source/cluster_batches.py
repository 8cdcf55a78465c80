"""The batches of a range, read from a cluster up to the range's end. If the log shrank meanwhile, that is an error, not a short
read.

A reader that stops at the log's end cannot tell "nothing more" from "the broker came back without its tail".
"""

from collections.abc import Callable, Iterator

from ...client.connection.cluster import Cluster
from ...client.fetch.fetched import CorruptRange, TopicPartition
from ...client.fetch.log_offsets import LATEST, log_offsets
from ...client.fetch.read_range import read_range
from ...wire.batch.record_batch import BatchHeader
from ..errors import LogMoved
from .offset_ranges import OffsetRange
from .record_reader import Batches, CorruptOffsets


def cluster_batches(cluster: Cluster, topic: str) -> Batches:
    """Return the reader of one topic's ranges. It raises LogMoved if the log ends before the range does."""

    def batches(wanted: OffsetRange, on_corrupt: Callable[[CorruptOffsets], None]) -> Iterator[tuple[BatchHeader, memoryview]]:
        at = wanted.from_offset

        def noted(bad: CorruptRange) -> None:
            nonlocal at
            at = max(at, bad.to_offset)
            on_corrupt(bad)

        has_checked = False
        while at < wanted.to_offset:
            began_at = at
            for header, batch in read_range(cluster, topic, wanted.partition, at, wanted.to_offset, on_corrupt=noted):
                at = max(at, header.next_offset)
                yield header, batch
            if at < wanted.to_offset:
                if has_checked and at == began_at:
                    return  # the log reaches further and holds nothing readable there
                _check_reaches(cluster, topic, wanted)
                has_checked = True

    return batches


def _check_reaches(cluster: Cluster, topic: str, wanted: OffsetRange) -> None:
    name = TopicPartition(topic, wanted.partition)
    end = log_offsets(cluster, {name: LATEST})[name]
    if end < wanted.to_offset:
        raise LogMoved(topic, wanted.partition, f"was to be read to {wanted.to_offset} and the log now ends at {end}; try again")
