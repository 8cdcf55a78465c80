"""Reads where a topic's partitions begin and end, in plain Python: no JVM starts only to learn that nothing is new."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...client.connection.cluster import Cluster
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from ...client.security.chosen import named_for
from ..errors import LogMoved
from .offset_ranges import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """Partition → its first offset, and the offset after its last."""

    start: dict[int, int]
    end: dict[int, int]

    def whole(self) -> list[OffsetRange]:
        """Return everything that each partition holds; empty ranges too."""
        return [
            OffsetRange(partition=partition, from_offset=self.start[partition], to_offset=end)
            for partition, end in sorted(self.end.items())
        ]


def log_ends(bootstrap: str, topic: str, client_config: str | None = None) -> LogEnds:
    """Return the ends, as the cluster reports them now. Raises the client's errors: UnknownTopic, BrokerUnreachable."""
    cluster = Cluster(bootstrap, client_id="headrace-load", security=named_for(bootstrap, client_config))
    try:
        names = [TopicPartition(topic, partition) for partition in cluster.partitions(topic)]
        start = log_offsets(cluster, {name: EARLIEST for name in names})
        end = log_offsets(cluster, {name: LATEST for name in names})
        return LogEnds(
            start={name.partition: offset for name, offset in start.items()},
            end={name.partition: offset for name, offset in end.items()},
        )
    finally:
        cluster.close()


def check_still_there(topic: str, ranges: Sequence[OffsetRange], ends: LogEnds) -> None:
    """Raise LogMoved unless the log still holds all of `ranges`: otherwise a task may have read past the data."""
    for one in ranges:
        if not one.span:
            continue
        if ends.end.get(one.partition, -1) < one.to_offset:
            raise LogMoved(
                topic,
                one.partition,
                f"was to be read to {one.to_offset} and the log now ends at {ends.end.get(one.partition)}; try again",
            )
        if ends.start[one.partition] > one.from_offset:
            raise LogMoved(
                topic,
                one.partition,
                f"was read from {one.from_offset} and the log now begins at {ends.start[one.partition]}; try again",
            )
