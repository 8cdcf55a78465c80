"""OffsetForLeaderEpoch, key 23, versions 2-4: the end offset of a leader epoch. Clients ask for it to learn whether the log was
truncated.

A partition of one replica has one epoch, 0, which every batch carries. It ends at the log end. One of several has an epoch for
each change of its leader, in the list beside the log. Of an epoch that the list does not name, the one before it is answered. For
an epoch in the future the response is -1 without an error, as in Kafka."""

from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..partitions.partition import Partition
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


def fault_of(current_leader_epoch: int, leader_epoch: int = ONLY_EPOCH) -> ErrorCode | None:
    """Return the error for the epoch that a client believes to be current. None for the current one, and where it names none."""
    if current_leader_epoch > leader_epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return None if current_leader_epoch in (leader_epoch, NOT_KNOWN) else ErrorCode.FENCED_LEADER_EPOCH


def epoch_at(partition: Partition, offset: int) -> int:
    """Return the leader epoch of the batch at an offset; of the next batch, at the log's end."""
    if not partition.is_replicated:
        return ONLY_EPOCH
    if offset >= partition.log.log_end_offset:
        return partition.leader_epoch
    return max((one.leader_epoch for one in partition.log.leader_epochs if one.start_offset <= offset), default=ONLY_EPOCH)


def _partition(broker: Broker, topic: str, wanted: Any) -> dict[str, Any]:
    index = int(wanted.partition)
    partition = broker.partitions.get(topic, index)
    if partition is None:
        return _result(index, broker.not_here(topic, index))
    if partition.is_replicated:
        fault = fault_of(int(wanted.current_leader_epoch), partition.leader_epoch)
        return _result(index, fault) if fault is not None else _end_of(partition, int(wanted.leader_epoch))
    if wanted.current_leader_epoch > ONLY_EPOCH:
        return _result(index, ErrorCode.UNKNOWN_LEADER_EPOCH)
    if wanted.leader_epoch != ONLY_EPOCH:
        return _result(index, ErrorCode.NONE)
    return _result(index, ErrorCode.NONE, ONLY_EPOCH, partition.log.log_end_offset)


def _end_of(partition: Partition, wanted: int) -> dict[str, Any]:
    """Return the largest epoch up to the wanted one, and the offset at which the next one began."""
    index = partition.index
    if wanted == partition.leader_epoch:
        return _result(index, ErrorCode.NONE, wanted, partition.log.log_end_offset)
    if wanted > partition.leader_epoch:
        return _result(index, ErrorCode.NONE)
    epochs = partition.log.leader_epochs
    end_offset = next((one.start_offset for one in epochs if one.leader_epoch > wanted), partition.log.log_end_offset)
    found = max((one.leader_epoch for one in epochs if one.leader_epoch <= wanted), default=NOT_KNOWN)
    if found == NOT_KNOWN:
        return _result(index, ErrorCode.NONE, wanted, partition.log.log_start_offset)
    return _result(index, ErrorCode.NONE, found, end_offset)


def _result(index: int, error: ErrorCode, epoch: int = NOT_KNOWN, end_offset: int = NOT_KNOWN) -> dict[str, Any]:
    return {"partition": index, "error_code": error, "leader_epoch": epoch, "end_offset": end_offset}
