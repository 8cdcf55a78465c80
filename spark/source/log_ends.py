"""Reads where a topic's partitions begin and end, in plain Python: no JVM starts only to learn that nothing is new."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...client.connection.cluster import Cluster
from ...client.errors import BrokerUnreachable, ClientError
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from ...client.security.chosen import named_for
from ..errors import LogMoved
from .offset_ranges import OffsetRange

TOPICS_AT_ONCE = 500
"""Of one request."""


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
        return ends_now(cluster, topic)
    finally:
        cluster.close()


def ends_now(cluster: Cluster, topic: str) -> LogEnds:
    """Return the ends of the partitions that the cluster is known to have, as it reports them now. Raises the client's errors."""
    return _ends(cluster, [topic])[topic]


def ends_of_topics(cluster: Cluster, topics: Sequence[str]) -> dict[str, LogEnds | ClientError]:
    """Return the ends of each topic, or why they are not available, with two requests a broker for `TOPICS_AT_ONCE` topics.

    Raises BrokerUnreachable, if no broker of the cluster answers.
    """
    found: dict[str, LogEnds | ClientError] = {}
    for begin in range(0, len(topics), TOPICS_AT_ONCE):
        some = topics[begin : begin + TOPICS_AT_ONCE]
        cluster.refresh(some)
        try:
            found.update(_ends(cluster, some))
        except ClientError:
            # One topic without a leader, or deleted a moment ago: asked one by one, it stands alone.
            found.update(_one_by_one(cluster, some))
    return found


def _one_by_one(cluster: Cluster, topics: Iterable[str]) -> Iterator[tuple[str, LogEnds | ClientError]]:
    for topic in topics:
        try:
            yield from _ends(cluster, [topic]).items()
        except ClientError as error:
            if isinstance(error, BrokerUnreachable):
                cluster.refresh([topic])  # raises if it is not only the topic's leader that is away
            yield topic, error


def _ends(cluster: Cluster, topics: Sequence[str]) -> Mapping[str, LogEnds]:
    names = [TopicPartition(topic, partition) for topic in topics for partition in cluster.partitions(topic)]
    start = log_offsets(cluster, {name: EARLIEST for name in names})
    end = log_offsets(cluster, {name: LATEST for name in names})
    found = {topic: LogEnds(start={}, end={}) for topic in topics}
    for name in names:
        found[name.topic].start[name.partition] = start[name]
        found[name.topic].end[name.partition] = end[name]
    return found


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
