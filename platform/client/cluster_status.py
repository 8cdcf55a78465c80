"""What is wrong with a cluster's brokers and partitions, and what to do. Pure. Works for any Kafka-wire cluster."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from ..wire.messages.describe_damage import Kind as DamageKind
from .damage import BrokerDamage
from .topic_admin import ClusterDescription, PartitionPlace


class Kind(Enum):
    """What may be wrong with a partition, the worst first. A partition has at most one of the first three."""

    NO_LEADER = "no_leader"
    """It takes no record and gives none."""
    UNDER_MIN_INSYNC = "under_min_insync"
    """Producers with acks=all get no acknowledgement."""
    UNDER_REPLICATED = "under_replicated"
    """Fewer replicas have its records than should."""
    LED_ELSEWHERE = "led_elsewhere"
    """Another broker leads than the preferred one: no fault, but the load may be uneven."""

    @property
    def is_fault(self) -> bool:
        return self is not Kind.LED_ELSEWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One partition that needs attention."""

    kind: Kind
    topic: str
    place: PartitionPlace
    min_insync_replicas: int
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """Everything that needs attention."""

    missing_brokers: Mapping[int, int]
    """Brokers that have replicas and are not there, with their number of replicas."""
    problems: tuple[Problem, ...]
    """By kind, then by topic and partition."""
    damaged: tuple[BrokerDamage, ...] = ()
    """Ranges of logs that brokers know to be damaged."""
    repaired: tuple[BrokerDamage, ...] = ()
    """Ranges that brokers repaired since they started: no fault, but a disk may be failing."""

    @property
    def is_well(self) -> bool:
        return not self.missing_brokers and not self.damaged and not any(one.kind.is_fault for one in self.problems)


def topics_to_ask(cluster: ClusterDescription) -> list[str]:
    """Return the topics whose `min.insync.replicas` matters: those in which a partition has not all its replicas in sync."""
    return [
        topic.name
        for topic in cluster.topics
        if any(one.leader >= 0 and len(one.in_sync_replicas) < len(one.replicas) for one in topic.partitions)
    ]


def damage_remedy(one: BrokerDamage, replica_count: int) -> str:
    """Return what to do about a damaged range of a partition with so many replicas."""
    if one.row.kind is DamageKind.UNDECIDED:
        return "the replicas differ, and none is right by a majority: see the runbook of damaged logs"
    if replica_count > 1:
        return "it is repaired from another replica within seconds; if not, see the runbook of damaged logs"
    return "there is no other replica to repair it from: the records are in the mirror's copy, or lost"


def cluster_status(
    cluster: ClusterDescription, min_insync: Mapping[str, int], damaged: Iterable[BrokerDamage] = ()
) -> ClusterStatus:
    """Return what is wrong. `min_insync` has the setting of the topics in `topics_to_ask`; `damaged` is what brokers say."""
    live = set(cluster.brokers)
    held = Counter(
        broker_id for topic in cluster.topics for one in topic.partitions for broker_id in one.replicas if broker_id not in live
    )
    problems = [
        problem
        for topic in cluster.topics
        for one in topic.partitions
        for problem in _problems(topic.name, one, live, min(min_insync.get(topic.name, 1), max(1, len(one.replicas))))
    ]
    order = list(Kind)
    problems.sort(key=lambda one: (order.index(one.kind), one.topic, one.place.partition))
    found = sorted(damaged)
    return ClusterStatus(
        missing_brokers=dict(sorted(held.items())),
        problems=tuple(problems),
        damaged=tuple(one for one in found if one.row.kind is not DamageKind.REPAIRED),
        repaired=tuple(one for one in found if one.row.kind is DamageKind.REPAIRED),
    )


def _problems(topic: str, place: PartitionPlace, live: set[int], min_insync_replicas: int) -> Iterator[Problem]:
    def problem(kind: Kind, remedy: str) -> Problem:
        return Problem(kind=kind, topic=topic, place=place, min_insync_replicas=min_insync_replicas, remedy=remedy)

    away = [broker_id for broker_id in place.replicas if broker_id not in live]
    lagging = [broker_id for broker_id in place.replicas if broker_id in live and broker_id not in place.in_sync_replicas]
    if place.leader < 0:
        yield problem(Kind.NO_LEADER, _remedy_without_leader(place, live, away))
        return
    remedy = (
        f"start {_brokers(away)}" if away else f"look at the log of {_brokers(lagging)}: it has not caught up with its leader"
    )
    if len(place.in_sync_replicas) < min_insync_replicas:
        yield problem(Kind.UNDER_MIN_INSYNC, remedy)
    elif len(place.in_sync_replicas) < len(place.replicas):
        yield problem(Kind.UNDER_REPLICATED, remedy)
    if place.replicas and place.leader != place.replicas[0] and place.replicas[0] in place.in_sync_replicas:
        yield problem(Kind.LED_ELSEWHERE, f"`headrace cluster elect` lets broker {place.replicas[0]} lead again")


def _remedy_without_leader(place: PartitionPlace, live: set[int], away: list[int]) -> str:
    if len(place.replicas) == 1:
        return f"start {_brokers(away or place.replicas)}: it has the only replica"
    members_away = [broker_id for broker_id in place.in_sync_replicas if broker_id not in live]
    if place.in_sync_replicas and len(members_away) == len(place.in_sync_replicas):
        return (
            f"start one of {_brokers(members_away)}: no other replica has all records; if none can come back, the "
            "partition stays closed, and its records are in the mirror's copy"
        )
    return "a replica takes over within seconds; if none does, look at the brokers' logs"


def _brokers(ids: Iterable[int]) -> str:
    listed = [str(one) for one in ids]
    return f"{'broker' if len(listed) == 1 else 'brokers'} {', '.join(listed)}"
