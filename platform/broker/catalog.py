"""What the cluster looks like: its topics, where their partitions live, its brokers. Pure; replaced as a whole when ZooKeeper
says something new.

Metadata is answered from here; nothing else decides by it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """One topic of the cluster."""

    name: str
    partitions: Mapping[int, tuple[int, ...]]
    """Partition to broker ids, the leader first."""
    config: Mapping[str, str]
    """The topic's own settings, not the defaults."""


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


def assignment(partition_count: int, broker_ids: Collection[int], *, first: int = 0) -> dict[int, tuple[int, ...]]:
    """Return which broker leads each new partition: in turn over the sorted ids, one replica each, beginning at `first`."""
    ids = sorted(broker_ids)
    return {partition: (ids[(first + partition) % len(ids)],) for partition in range(partition_count)}
