"""The cluster's topics, the brokers of their partitions, and the brokers' addresses. Metadata is answered from here.

Pure and immutable: a new catalog replaces the old one when ZooKeeper has changed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ..errors import NotEnoughBrokers, NotMorePartitions

ReplicaAssignment = Mapping[int, tuple[int, ...]]
"""The broker ids of each partition, the leader first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """What the node of one replicated partition says, as this broker has read it last."""

    leader: int
    """-1: none yet."""
    leader_epoch: int
    in_sync: tuple[int, ...]
    replicas: tuple[int, ...]
    """The first one is preferred as leader."""
    targets: tuple[int, ...]
    """The whole list that a reassignment wants, empty when none is under way."""
    version: int
    """Of the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """One topic of the cluster."""

    name: str
    partitions: ReplicaAssignment
    config: Mapping[str, str]
    """The topic's own settings, not the defaults."""
    topic_id: UUID
    """Unique: a topic that is deleted and created again has another id."""
    states: Mapping[int, ReplicaView] = field(default_factory=dict)
    """Of the partitions with more than one replica, as far as they were read. A change of a state makes a new entry."""

    def leader_of(self, partition: int) -> int:
        """Return the broker that leads the partition, -1 when none does or that is not known yet."""
        replicas = self.partitions[partition]
        if len(replicas) <= 1:
            return replicas[0] if replicas else -1
        state = self.states.get(partition)
        return -1 if state is None else state.leader

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of the partition that has the fewest."""
        return replication_factor_of({**self.partitions, **{index: one.replicas for index, one in self.states.items()}})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """Where a broker is reached."""

    broker_id: int
    host: str
    port: int
    """Of its listener for other brokers."""
    endpoints: Mapping[str, tuple[str, int]]
    """Host and port for clients, by the listener's name."""
    start_number: int = 0
    """Which start of the broker this is; 0: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """One state of the cluster."""

    cluster_id: str | None = None
    topics: Mapping[str, TopicEntry] = field(default_factory=dict)
    brokers: Mapping[int, BrokerAddress] = field(default_factory=dict)

    def has(self, topic: str, partition: int) -> bool:
        """Return whether the partition exists, on any broker."""
        entry = self.topics.get(topic)
        return entry is not None and partition in entry.partitions


def replication_factor_of(partitions: ReplicaAssignment) -> int:
    """Return the number of replicas of the partition that has the fewest, at least 1."""
    return max(1, min((len(set(ids)) for ids in partitions.values()), default=1))


def assignment(
    partition_count: int, broker_ids: Collection[int], *, first: int = 0, replication_factor: int = 1
) -> dict[int, tuple[int, ...]]:
    """Return the brokers of each new partition, the preferred leader first, as Kafka spreads them.

    Leaders go round-robin over the sorted ids, beginning at `first`. Followers are shifted, and after each round by one more, so
    that the followers of one broker's partitions are spread over all others. Raises: NotEnoughBrokers.
    """
    ids = sorted(broker_ids)
    if replication_factor > len(ids):
        raise NotEnoughBrokers(replication_factor, ids)
    count = len(ids)
    assigned = {}
    for partition in range(partition_count):
        leader, rounds = first + partition, first // count + partition // count
        shifts = (1 + (rounds + follower) % (count - 1) for follower in range(replication_factor - 1))
        assigned[partition] = (ids[leader % count], *(ids[(leader + shift) % count] for shift in shifts))
    return assigned


def extension(
    topic: str,
    present: ReplicaAssignment,
    partition_count: int,
    broker_ids: Collection[int],
    replicas: Sequence[tuple[int, ...]] | None,
) -> dict[int, tuple[int, ...]]:
    """Return the partitions to add so that there are `partition_count`: on `replicas`, or spread over the brokers with as many
    replicas as the topic has.

    Raises: NotMorePartitions when there are as many already, or when `replicas` has not one entry for each new partition;
    NotEnoughBrokers.
    """
    first = len(present)
    if partition_count <= first or (replicas is not None and len(replicas) != partition_count - first):
        raise NotMorePartitions(topic, first, partition_count)
    if replicas is not None:
        return dict(enumerate(replicas, first))
    ids = sorted(broker_ids)
    begun_at = ids.index(present[0][0]) if present.get(0, ())[:1] and present[0][0] in ids else 0
    whole = assignment(partition_count, ids, first=begun_at, replication_factor=replication_factor_of(present))
    return {index: whole[index] for index in range(first, partition_count)}
