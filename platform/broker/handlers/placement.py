"""Where a request wants new partitions to lie, and why it may not be so. Pure. For CreateTopics and CreatePartitions.

A partition has one replica here. More of them are a replication factor that is not offered; brokers that are not there, or the
same one twice, are a wrong assignment."""

from collections.abc import Collection, Sequence

from ...wire.errors import ErrorCode

Refusal = tuple[ErrorCode, str]

MOST_PARTITIONS = 10_000
"""Of one topic; each costs a file and its share of memory."""

MOST_NEW = 10_000
"""Partitions that one request may make, in all its topics together; Kafka's controller has the same bound."""
TOO_MANY_NEW: Refusal = (
    ErrorCode.POLICY_VIOLATION,
    f"one request makes at most {MOST_NEW} partitions: ask for this topic in another one",
)


def fault_of(places: Sequence[Sequence[int]], broker_ids: Collection[int]) -> Refusal | None:
    """Return what is wrong with the brokers wished for, by partition, or None."""
    for at, brokers in enumerate(places):
        if len(set(brokers)) != len(brokers) or not brokers:
            why = f"assignment {at} names brokers {list(brokers)}: name one broker, once"
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
        if len(brokers) > 1:
            why = f"assignment {at} names {len(brokers)} brokers: partitions have one replica here"
            return ErrorCode.INVALID_REPLICATION_FACTOR, why
        if brokers[0] not in broker_ids:
            why = f"assignment {at} names broker {brokers[0]}: there are {sorted(broker_ids)}"
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
    return None
