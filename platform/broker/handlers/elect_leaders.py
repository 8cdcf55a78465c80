"""ElectLeaders, key 43, versions 0-2: says whether a partition's preferred replica leads it.

A replica takes over by itself when the leader is gone, so no election has to be asked for. Asked about all partitions, the answer
names those that need one, as Apache Kafka does."""

from collections.abc import Generator, Iterator
from enum import IntEnum
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..partitions.placement import NO_LEADER, Placement, placement
from .broker import Broker, required
from .replica_assignment import Refusal
from .request import Request

KEY = 43


class Election(IntEnum):
    """The protocol's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each partition of the request."""
    decoded = yield from control.decode_in_steps(KEY, request.version, request.body)
    kind = int(getattr(decoded, "election_type", Election.PREFERRED))
    live = broker.broker_ids
    topics: Iterator[dict[str, Any]]
    if decoded.topic_partitions is None:
        needing = yield from _needing(broker, kind, live)
        topics = ({"topic": topic, "partition_result": results} for topic, results in needing.items())
    else:
        topics = (
            {
                "topic": topic.topic,
                "partition_result": (
                    _partition(broker, name, int(index), kind, live)
                    for name in (str(topic.topic),)
                    for index in required(topic.partitions)
                ),
            }
            for topic in decoded.topic_partitions
        )
    message = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "replica_election_results": topics}
    return (yield from control.encode_in_steps(KEY, request.version, message))


def outcome(placed: Placement | None, kind: int) -> Refusal:
    """Return the outcome for a partition; None: there is no such partition. Pure."""
    if placed is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"
    if kind == Election.UNCLEAN:
        if placed.leader != NO_LEADER:
            return ErrorCode.ELECTION_NOT_NEEDED, f"broker {placed.leader} leads this partition"
        why = "a replica without all acknowledged records never leads: see `headrace partition recover --dry-run`"
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, why
    preferred = placed.replicas[0]
    if placed.leader == preferred:
        return ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred}, the preferred one, leads this partition"
    if preferred in placed.offline:
        has = "has its only replica" if len(placed.replicas) == 1 else "is preferred as leader"
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred} {has} and is not there: start it"
    if preferred not in placed.in_sync:
        why = f"broker {preferred} is preferred as leader and has not caught up yet: ask again when it is in sync"
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, why
    why = f"broker {placed.leader} leads; it hands over to broker {preferred} only when it stops: restart it"
    return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, why


def _partition(broker: Broker, topic: str, index: int, kind: int, live: set[int]) -> dict[str, Any]:
    entry = broker.topics.catalog.topics.get(topic)
    error, why = outcome(None if entry is None else placement(entry, index, live), kind)
    return {"partition_id": index, "error_code": error, "error_message": why}


def _needing(broker: Broker, kind: int, live: set[int]) -> Generator[None, None, dict[str, list[dict[str, Any]]]]:
    """Return by topic the results of the partitions that need an election."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, entry in broker.topics.catalog.topics.items():
        yield
        for index in entry.states:
            result = _partition(broker, name, index, kind, live)
            if result["error_code"] != ErrorCode.ELECTION_NOT_NEEDED:
                found.setdefault(name, []).append(result)
    return found
