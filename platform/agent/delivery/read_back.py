"""Looks for batches in the log of a partition: whether they were stored, when no broker's word says so.

Reads headers only, from the lowest offset at which one of the batches may stand to the log's end as it is now.
"""

from collections.abc import Sequence

from ...client.connection.cluster import Cluster
from ...client.errors import OffsetOutOfRange
from ...client.fetch.fetched import CorruptRange, TopicPartition
from ...client.fetch.log_offsets import log_range
from ...client.fetch.read_range import read_range
from ...client.producer.delivery import BatchNumbers
from ..plan.settling import Look

READ_TIMEOUT_MS = 30_000


def look_for(
    cluster: Cluster, topic: str, partition: int, wanted: Sequence[tuple[int, Sequence[BatchNumbers]]]
) -> list[tuple[Look, BatchNumbers | None]]:
    """Return for each of `wanted` (search from this offset, the numbers it may have) what was found, and under which numbers.

    Raises ClientError: nothing is known then.
    """
    start, end = log_range(cluster, TopicPartition(topic, partition))
    names = {numbers for _, all_numbers in wanted for numbers in all_numbers}
    found: set[BatchNumbers] = set()
    unreadable: list[tuple[int, int]] = []

    def skip(bad: CorruptRange) -> None:
        unreadable.append((bad.from_offset, bad.to_offset))

    first = min((offset for offset, _ in wanted), default=end)
    at = max(first, start)
    while at < end:
        try:
            for header, _ in read_range(cluster, topic, partition, at, end, on_corrupt=skip, timeout_ms=READ_TIMEOUT_MS):
                at = header.next_offset
                numbers = BatchNumbers(header.producer_id, header.producer_epoch, header.base_sequence, header.crc)
                if numbers in names:
                    found.add(numbers)
            break
        except OffsetOutOfRange as error:
            # Retention has taken what was to be read next.
            start = at = max(error.log_start_offset, at + 1)
    answers: list[tuple[Look, BatchNumbers | None]] = []
    for offset, all_numbers in wanted:
        hit = next((numbers for numbers in all_numbers if numbers in found), None)
        if hit is not None:
            answers.append((Look.FOUND, hit))
        elif offset < start or any(to_offset > offset for _, to_offset in unreadable):
            answers.append((Look.UNKNOWABLE, None))
        else:
            answers.append((Look.ABSENT, None))
    return answers
