"""AlterPartitionReassignments, key 45, versions 0-1, ListPartitionReassignments, key 46, version 0: which partitions get replicas
on other brokers.

The list has those whose state names target replicas. A request to put a partition where it is succeeds; one to move it is refused
for this partition."""

from collections.abc import Sequence
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..partitions.catalog import ReplicaView
from ..partitions.placement import placement
from .broker import Broker, required
from .replica_assignment import Refusal
from .request import Request

ALTER_KEY, LIST_KEY = 45, 46


def list_(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the partitions, of those asked for, that get replicas."""
    decoded = yield from control.decode_in_steps(LIST_KEY, request.version, request.body)
    known = broker.topics.catalog.topics
    asked: dict[str, set[int] | None] = dict.fromkeys(known)
    if decoded.topics is not None:
        asked = {str(one.name): {int(index) for index in required(one.partition_indexes)} for one in decoded.topics}
    topics = []
    for name, indices in asked.items():
        yield
        if (entry := known.get(name)) is not None:
            moving = [_moving(index, view) for index, view in sorted(entry.states.items()) if view.targets]
            moving = [one for one in moving if indices is None or one["partition_index"] in indices]
            if moving:
                topics.append({"name": name, "partitions": moving})
    message = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": None, "topics": topics}
    return (yield from control.encode_in_steps(LIST_KEY, request.version, message))


def _moving(index: int, view: ReplicaView) -> dict[str, Any]:
    adding = [one for one in view.targets if one not in view.replicas]
    return {
        "partition_index": index,
        "replicas": [*view.replicas, *adding],
        "adding_replicas": adding,
        "removing_replicas": [one for one in view.replicas if one not in view.targets],
    }


def alter(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each partition."""
    decoded = yield from control.decode_in_steps(ALTER_KEY, request.version, request.body)
    topics = (
        {
            "name": topic.name,
            "partitions": (
                _partition(broker, name, wanted) for name in (str(topic.name),) for wanted in required(topic.partitions)
            ),
        }
        for topic in required(decoded.topics)
    )
    message = {
        "throttle_time_ms": 0,
        "allow_replication_factor_change": getattr(decoded, "allow_replication_factor_change", True),
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "responses": topics,
    }
    return (yield from control.encode_in_steps(ALTER_KEY, request.version, message))


def refusal(current: Sequence[int] | None, wanted: Sequence[int] | None) -> Refusal | None:
    """Return why a partition on the brokers `current` is not put on `wanted`; None when it is there. Pure.

    `current` is None for a partition that does not exist. `wanted` is None in a request to cancel a move.
    """
    if current is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"
    if wanted is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no partition of this cluster is being moved"
    if list(wanted) != list(current):
        why = f"partitions do not move between brokers yet: this one is on {list(current)}, not on {list(wanted)}"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
    return None


def _partition(broker: Broker, topic: str, wanted: Any) -> dict[str, Any]:
    index = int(wanted.partition_index)
    entry = broker.topics.catalog.topics.get(topic)
    placed = None if entry is None else placement(entry, index, broker.broker_ids)
    error, why = refusal(None if placed is None else placed.replicas, wanted.replicas) or (ErrorCode.NONE, None)
    return {"partition_index": index, "error_code": error, "error_message": why}
