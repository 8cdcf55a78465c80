"""AlterPartitionReassignments, key 45, versions 0-1, ListPartitionReassignments, key 46, version 0: partitions do not move.

So the list is empty. A request to put a partition where it is succeeds; one to move it is refused for this partition."""

from collections.abc import Sequence
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from .broker import Broker, required
from .replica_assignment import Refusal
from .request import Request

ALTER_KEY, LIST_KEY = 45, 46


def list_(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the empty list."""
    yield from control.decode_in_steps(LIST_KEY, request.version, request.body)
    message = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": None, "topics": ()}
    return (yield from control.encode_in_steps(LIST_KEY, request.version, message))


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
        why = f"partitions do not move between brokers here: this one is on {list(current)}, not on {list(wanted)}"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
    return None


def _partition(broker: Broker, topic: str, wanted: Any) -> dict[str, Any]:
    index = int(wanted.partition_index)
    entry = broker.topics.catalog.topics.get(topic)
    error, why = refusal(None if entry is None else entry.partitions.get(index), wanted.replicas) or (ErrorCode.NONE, None)
    return {"partition_index": index, "error_code": error, "error_message": why}
