"""DescribeProducers, key 61, version 0: the idempotent producers of each partition, with their last sequence numbers.

Their last timestamps are not kept, and there are no transactions: both are -1."""

from collections.abc import Iterator
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..log.producer_state import ProducerStates
from .broker import Broker, required
from .request import Request

KEY = 61


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the producers of each partition of the request."""
    decoded = yield from control.decode_in_steps(KEY, request.version, request.body)
    topics = (
        {
            "name": topic.name,
            "partitions": (
                _partition(broker, name, int(index)) for name in (str(topic.name),) for index in required(topic.partition_indexes)
            ),
        }
        for topic in required(decoded.topics)
    )
    return (yield from control.encode_in_steps(KEY, request.version, {"throttle_time_ms": 0, "topics": topics}))


def _partition(broker: Broker, topic: str, index: int) -> dict[str, Any]:
    partition = broker.partitions.get(topic, index)
    error = ErrorCode.NONE if partition is not None else broker.not_here(topic, index)
    producers = () if partition is None else _producers(partition.log.producers)
    return {"partition_index": index, "error_code": error, "error_message": None, "active_producers": producers}


def _producers(states: ProducerStates) -> Iterator[dict[str, Any]]:
    for producer_id, (epoch, batches) in states.snapshot():
        base_sequence, record_count, _ = batches[-1]
        yield {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "last_sequence": (base_sequence + record_count - 1) & 0x7FFFFFFF,
            "last_timestamp": -1,
            "coordinator_epoch": -1,
            "current_txn_start_offset": -1,
        }
