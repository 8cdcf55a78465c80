"""ElectLeaders, key 43, versions 0-2: a partition's only replica leads it, so no election is needed.

Asked about all partitions, the answer names none: Apache Kafka leaves out those that need no election."""

from collections.abc import Collection, Sequence
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from .broker import Broker, required
from .replica_assignment import Refusal
from .request import Request

KEY = 43


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each partition of the request."""
    decoded = yield from control.decode_in_steps(KEY, request.version, request.body)
    live = broker.broker_ids
    topics = (
        {
            "topic": topic.topic,
            "partition_result": (
                _partition(broker, name, int(index), live) for name in (str(topic.topic),) for index in required(topic.partitions)
            ),
        }
        for topic in decoded.topic_partitions or ()
    )
    message = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "replica_election_results": topics}
    return (yield from control.encode_in_steps(KEY, request.version, message))


def outcome(replicas: Sequence[int] | None, live: Collection[int]) -> Refusal:
    """Return the outcome for a partition on these brokers, of which `live` are there. `replicas` is None where there is no such
    partition. Pure.
    """
    if replicas is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"
    if replicas[0] not in live:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {replicas[0]} has its only replica and is not there: start it"
    return ErrorCode.ELECTION_NOT_NEEDED, "its only replica leads this partition"


def _partition(broker: Broker, topic: str, index: int, live: Collection[int]) -> dict[str, Any]:
    entry = broker.topics.catalog.topics.get(topic)
    error, why = outcome(None if entry is None else entry.partitions.get(index), live)
    return {"partition_id": index, "error_code": error, "error_message": why}
