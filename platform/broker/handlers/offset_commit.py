"""OffsetCommit, key 8, versions 2-8: a consumer notes how far it has read. Answered when ZooKeeper has it.

The registry holds the offset alone: metadata and leader epochs that clients send along are not kept. Group members do not
exist here yet, so a commit with a generation is refused."""

from collections.abc import Callable
from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from ..later import Later
from ..offset_desk import Position
from .context import Context, required, respond
from .group_id import is_usable

KEY = 8

LONGEST_METADATA = 4_096


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return each partition's error code once the offsets are durable."""
    request = control.decode_request(KEY, version, body)
    group = str(request.group_id)
    if not is_usable(group):
        return _answer(version, request, lambda topic, partition: ErrorCode.INVALID_GROUP_ID)
    if request.generation_id_or_member_epoch >= 0:
        return _answer(version, request, lambda topic, partition: ErrorCode.UNKNOWN_MEMBER_ID)
    refused: dict[Position, ErrorCode] = {}
    offsets: dict[Position, int] = {}
    for topic in required(request.topics):
        entry = context.topics.catalog.topics.get(str(topic.name))
        for partition in required(topic.partitions):
            position = (str(topic.name), int(partition.partition_index))
            if entry is None or position[1] not in entry.partitions:
                refused[position] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif partition.committed_offset < 0:
                refused[position] = ErrorCode.OFFSET_OUT_OF_RANGE
            elif len(partition.committed_metadata or "") > LONGEST_METADATA:
                refused[position] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                offsets[position] = int(partition.committed_offset)
    if not offsets:
        return _answer(version, request, lambda topic, partition: refused[topic, partition])
    later = Later()

    def done(error: Exception | None) -> None:
        code = ErrorCode.NONE if error is None else ErrorCode.COORDINATOR_NOT_AVAILABLE
        later.complete(respond(_answer(version, request, lambda topic, partition: refused.get((topic, partition), code))))

    if not context.offsets.commit(group, offsets, done):
        return _answer(version, request, lambda topic, partition: ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return later


def _answer(version: int, request: Any, error_of: Callable[[str, int], ErrorCode]) -> bytes:
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": partition.partition_index,
                    "error_code": error_of(str(topic.name), int(partition.partition_index)),
                }
                for partition in required(topic.partitions)
            ],
        }
        for topic in required(request.topics)
    ]
    return control.encode_response(KEY, version, {"throttle_time_ms": 0, "topics": topics})
