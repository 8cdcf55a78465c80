"""Checks how many new partitions a request wants, and which brokers are to keep them. Pure. For CreateTopics and
CreatePartitions.

More replicas than live brokers are an invalid replication factor. A broker that does not exist, the same broker twice, and
partitions with different numbers of replicas are an invalid assignment."""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any

from ...wire.errors import ErrorCode
from ..errors import NotEnoughBrokers
from .fan_in import NAMED_TWICE

Refusal = tuple[ErrorCode, str]

MOST_PARTITIONS = 10_000
"""Of one topic. Each costs a file and some memory."""

MOST_NEW = 10_000
"""Partitions that one request may create, in all its topics together. Kafka's controller has the same bound."""
TOO_MANY_NEW: Refusal = (
    ErrorCode.POLICY_VIOLATION,
    f"one request makes at most {MOST_NEW} partitions: ask for this topic in another one",
)


def sorted_out(
    topics: Sequence[Any], refusal: Callable[[Any], Refusal | None], new_count: Callable[[Any], int]
) -> Generator[None, None, tuple[dict[str, Refusal], dict[str, Any]]]:
    """Return by name the topics of a request that are refused, and those that are accepted. Pauses at each topic.

    `refusal` checks one topic by itself. For one that passes, `new_count` says how many partitions it creates.
    """
    named = Counter(str(topic.name) for topic in topics)
    refused: dict[str, Refusal] = {}
    granted: dict[str, Any] = {}
    left = MOST_NEW
    for topic in topics:
        yield
        name = str(topic.name)
        why = (ErrorCode.INVALID_REQUEST, NAMED_TWICE) if named[name] > 1 else refusal(topic)
        if why is None and (new := new_count(topic)) <= left:
            left -= new
            granted[name] = topic
        else:
            refused[name] = why or TOO_MANY_NEW
    return refused, granted


def too_many(partition_count: int) -> Refusal:
    """Return why a topic may not have so many partitions."""
    return ErrorCode.POLICY_VIOLATION, f"{partition_count} partitions: give at most {MOST_PARTITIONS}"


def factor_refusal(replication_factor: int, broker_ids: Collection[int]) -> Refusal | None:
    """Return why partitions cannot have so many replicas, or None."""
    if replication_factor < 1:
        why = f"replication factor {replication_factor}: give 1 or more, or -1 for default.replication.factor"
        return ErrorCode.INVALID_REPLICATION_FACTOR, why
    if replication_factor > len(broker_ids):
        return ErrorCode.INVALID_REPLICATION_FACTOR, str(NotEnoughBrokers(replication_factor, sorted(broker_ids)))
    return None


def fault_of(
    replicas: Sequence[Sequence[int]], broker_ids: Collection[int], replication_factor: int | None = None
) -> Refusal | None:
    """Return the fault of an assignment (the brokers of each partition), or None. Each partition must have `replication_factor`
    replicas; None: as many as the first.
    """
    for at, brokers in enumerate(replicas):
        if len(set(brokers)) != len(brokers) or not brokers:
            why = f"assignment {at} names brokers {list(brokers)}: name at least one broker, each once"
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
        if strangers := [one for one in brokers if one not in broker_ids]:
            why = f"assignment {at} names broker {strangers[0]}: there are {sorted(broker_ids)}"
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
        wanted = len(replicas[0]) if replication_factor is None else replication_factor
        if len(brokers) != wanted:
            why = f"assignment {at} names {len(brokers)} brokers: each partition of this topic has {wanted} replicas"
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
    return None
