"""What the cluster looks like: its topics, where their partitions live, its brokers. Pure; replaced as a whole when ZooKeeper
says something new.

Metadata is answered from here; nothing else decides by it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ..errors import NotMorePartitions

Places = Mapping[int, tuple[int, ...]]
"""Partition to broker ids, the leader first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """One topic of the cluster."""

    name: str
    partitions: Places
    config: Mapping[str, str]
    """The topic's own settings, not the defaults."""
    topic_id: UUID
    """Another one for every topic that ever had this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """Where a broker listens."""

    broker_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """One state of the cluster."""

    cluster_id: str | None = None
    topics: Mapping[str, TopicEntry] = field(default_factory=dict)
    brokers: Mapping[int, BrokerAddress] = field(default_factory=dict)

    def has(self, topic: str, partition: int) -> bool:
        """Return whether there is such a partition, on whichever broker."""
        entry = self.topics.get(topic)
        return entry is not None and partition in entry.partitions


def assignment(partition_count: int, broker_ids: Collection[int], *, first: int = 0) -> dict[int, tuple[int, ...]]:
    """Return which broker leads each new partition: in turn over the sorted ids, one replica each, beginning at `first`."""
    ids = sorted(broker_ids)
    return {partition: (ids[(first + partition) % len(ids)],) for partition in range(partition_count)}


def extension(
    topic: str, present: Places, partition_count: int, broker_ids: Collection[int], places: Sequence[tuple[int, ...]] | None
) -> dict[int, tuple[int, ...]]:
    """Return the partitions to add so that there are `partition_count`: at `places`, or in turn over the brokers.

    Raises: NotMorePartitions when there are as many already, or when `places` has not one for each new partition.
    """
    first = len(present)
    if partition_count <= first or (places is not None and len(places) != partition_count - first):
        raise NotMorePartitions(topic, first, partition_count)
    if places is not None:
        return dict(enumerate(places, first))
    ids = sorted(broker_ids)
    begun_at = ids.index(present[0][0]) if present.get(0, ())[:1] and present[0][0] in ids else 0
    whole = assignment(partition_count, ids, first=begun_at)
    return {index: whole[index] for index in range(first, partition_count)}
