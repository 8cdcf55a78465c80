"""OffsetForLeaderEpoch, key 23, versions 2-4: the end offset of a leader epoch. Clients ask for it to learn whether the log was
truncated.

There is one epoch, 0, which every batch carries. It ends at the log end. No acknowledged record is ever cut, so no client has to
go back. For an epoch in the future the response is -1 without an error, as in Kafka."""

from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from .broker import Broker, required
from .request import Request

KEY = 23

ONLY_EPOCH = 0
NOT_KNOWN = -1


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return epoch and end offset for each partition asked about."""
    decoded = yield from control.decode_in_steps(KEY, request.version, request.body)
    topics = (
        {
            "topic": topic.topic,
            "partitions": (
                _partition(broker, name, wanted) for name in (str(topic.topic),) for wanted in required(topic.partitions)
            ),
        }
        for topic in required(decoded.topics)
    )
    return (yield from control.encode_in_steps(KEY, request.version, {"throttle_time_ms": 0, "topics": topics}))


def fault_of(current_leader_epoch: int) -> ErrorCode | None:
    """Return the error for the epoch that a client believes to be current. None for the current one, and where it names none."""
    if current_leader_epoch > ONLY_EPOCH:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return None if current_leader_epoch in (ONLY_EPOCH, NOT_KNOWN) else ErrorCode.FENCED_LEADER_EPOCH


def _partition(broker: Broker, topic: str, wanted: Any) -> dict[str, Any]:
    index = int(wanted.partition)
    partition = broker.partitions.get(topic, index)
    if partition is None:
        return _result(index, broker.not_here(topic, index))
    if wanted.current_leader_epoch > ONLY_EPOCH:
        return _result(index, ErrorCode.UNKNOWN_LEADER_EPOCH)
    if wanted.leader_epoch != ONLY_EPOCH:
        return _result(index, ErrorCode.NONE)
    return _result(index, ErrorCode.NONE, ONLY_EPOCH, partition.log.log_end_offset)


def _result(index: int, error: ErrorCode, epoch: int = NOT_KNOWN, end_offset: int = NOT_KNOWN) -> dict[str, Any]:
    return {"partition": index, "error_code": error, "leader_epoch": epoch, "end_offset": end_offset}
