"""Checks how many new partitions a request wants, and which brokers are to keep them. Pure. For CreateTopics and
CreatePartitions.

A partition has one replica here. More replicas are an invalid replication factor. A broker that does not exist, or the same
broker twice, is an invalid assignment."""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any

from ...wire.errors import ErrorCode
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


def fault_of(replicas: Sequence[Sequence[int]], broker_ids: Collection[int]) -> Refusal | None:
    """Return the fault of an assignment (the brokers of each partition), or None."""
    for at, brokers in enumerate(replicas):
        if len(set(brokers)) != len(brokers) or not brokers:
            why = f"assignment {at} names brokers {list(brokers)}: name one broker, once"
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
        if strangers := [one for one in brokers if one not in broker_ids]:
            why = f"assignment {at} names broker {strangers[0]}: there are {sorted(broker_ids)}"
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
        if len(brokers) > 1:
            why = f"assignment {at} names {len(brokers)} brokers: partitions have one replica here"
            return ErrorCode.INVALID_REPLICATION_FACTOR, why
    return None
