"""ListOffsets, key 2, versions 1-7: where a partition begins, where it ends, and where a time is found.

Trap: while it is not known who leads, the answer is the retriable error, never offset 0 or -1, which would make clients begin
anew. Leader epochs are -1. A time that no record reaches is answered with offset -1 and no error."""

from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from ..log import FolderFault
from ..partitions import Partition
from .context import Context, required

KEY = 2

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
NOT_FOUND = -1


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes:
    """Return one offset and its timestamp for each partition asked about."""
    request = control.decode_request(KEY, version, body)
    topics = [
        {
            "name": topic.name,
            "partitions": [_partition(context, str(topic.name), wanted) for wanted in required(topic.partitions)],
        }
        for topic in required(request.topics)
    ]
    return control.encode_response(KEY, version, {"throttle_time_ms": 0, "topics": topics})


def _partition(context: Context, topic: str, wanted: Any) -> dict[str, Any]:
    index = int(wanted.partition_index)
    partition = context.partitions.get(topic, index)
    if partition is None:
        entry = context.topics.catalog.topics.get(topic)
        is_elsewhere = entry is not None and index in entry.partitions
        return _result(index, ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    timestamp_ms = int(wanted.timestamp)
    if timestamp_ms == LATEST:
        return _result(index, ErrorCode.NONE, partition.high_watermark)
    if timestamp_ms == EARLIEST:
        return _result(index, ErrorCode.NONE, partition.log.log_start_offset)
    if timestamp_ms < 0 and timestamp_ms != MAX_TIMESTAMP:
        return _result(index, ErrorCode.INVALID_REQUEST)
    return _at_time(partition, index, timestamp_ms)


def _at_time(partition: Partition, index: int, timestamp_ms: int) -> dict[str, Any]:
    log = partition.log
    try:
        found = log.largest_timestamp() if timestamp_ms == MAX_TIMESTAMP else log.offset_for_time(timestamp_ms)
    except FolderFault:
        return _result(index, ErrorCode.KAFKA_STORAGE_ERROR)
    if found is None or found[0] >= partition.high_watermark:
        return _result(index, ErrorCode.NONE)
    return _result(index, ErrorCode.NONE, *found)


def _result(index: int, error: ErrorCode, offset: int = NOT_FOUND, timestamp_ms: int = -1) -> dict[str, Any]:
    return {"partition_index": index, "error_code": error, "timestamp": timestamp_ms, "offset": offset, "leader_epoch": -1}
