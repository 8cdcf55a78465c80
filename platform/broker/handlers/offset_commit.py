"""OffsetCommit, key 8, versions 1-8: stores how far a consumer has read, with its metadata. The response comes when ZooKeeper
has it.

Members commit for their generation. Without a generation (-1) any client may commit while the group has no members. Commit and
retention times that old versions send are not stored: the broker's own `offsets.retention.minutes` is valid for all. Trap:
KafkaJS resets a group by committing ListOffsets' words for begin (-2) and end (-1). The offset that they stand for is stored."""

from collections.abc import Callable, Generator
from typing import Any

from ...coordination.committed_offset import CommittedOffset
from ...coordination.errors import NotClaimed
from ...wire.errors import ErrorCode
from ...wire.messages import control, offset_commit_v1
from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.response_generators import ResponseGenerator
from ..groups.offset_commits import Position
from .broker import Broker, required
from .group_id import refusal
from .list_offsets import EARLIEST, LATEST
from .request import Request

KEY = 8


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return each partition's error code once the offsets are durable."""
    version, body = request.version, request.body
    if version == 1:
        body, version = memoryview((yield from offset_commit_v1.as_v2_in_steps(body))), offset_commit_v1.AS_VERSION
    decoded = yield from control.decode_in_steps(KEY, version, body)
    group = str(decoded.group_id)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused: dict[Position, ErrorCode] = {}
    offsets: dict[Position, CommittedOffset] = {}
    longest_metadata = broker.settings.offset_metadata_max_bytes
    for topic in required(decoded.topics):
        for partition in required(topic.partitions):
            yield
            position = (str(topic.name), int(partition.partition_index))
            metadata = str(partition.committed_metadata or "")
            offset = _resolved(broker, position, int(partition.committed_offset))
            if not broker.topics.catalog.has(*position):
                refused[position] = unknown
            elif offset < 0:
                refused[position] = ErrorCode.OFFSET_OUT_OF_RANGE
            elif len(metadata) > longest_metadata:
                refused[position] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                leader_epoch = int(getattr(partition, "committed_leader_epoch", -1))
                offsets[position] = CommittedOffset(offset, leader_epoch, metadata)
    # After the pauses: whether the client may commit is checked right before its offsets are written.
    error = refusal(broker, group)
    if error is ErrorCode.NONE:
        instance_id = getattr(decoded, "group_instance_id", None)
        generation = int(decoded.generation_id_or_member_epoch)
        error = broker.groups.may_commit(group, generation, str(decoded.member_id), instance_id)
    if error is not ErrorCode.NONE:
        has = broker.topics.catalog.has
        return (yield from _answer(version, decoded, lambda topic, partition: error if has(topic, partition) else unknown))
    if not offsets:
        return (yield from _answer(version, decoded, lambda topic, partition: refused[topic, partition]))
    deferred, claim = DeferredResponse(), broker.groups.claim_of(group)

    def done(error: Exception | None) -> None:
        code = ErrorCode.NONE if error is None else ErrorCode.COORDINATOR_NOT_AVAILABLE
        if isinstance(error, NotClaimed):
            code = ErrorCode.NOT_COORDINATOR
            broker.groups.claim_lost(group, claim)
        answer = _answer(version, decoded, lambda topic, partition: refused.get((topic, partition), code))
        broker.generators.complete(deferred, answer)

    if not broker.offsets.commit(group, offsets, done, claim):
        return (yield from _answer(version, decoded, lambda topic, partition: ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return deferred


def _resolved(broker: Broker, position: Position, offset: int) -> int:
    """Return the offset that a negative one stands for, or the negative one itself."""
    if offset in (LATEST, EARLIEST) and (partition := broker.partitions.get(*position)) is not None:
        return partition.high_watermark if offset == LATEST else partition.log.log_start_offset
    return offset


def _answer(version: int, request: Any, error_of: Callable[[str, int], ErrorCode]) -> Generator[None, None, bytes]:
    topics = (
        {
            "name": topic.name,
            "partitions": (
                {
                    "partition_index": partition.partition_index,
                    "error_code": error_of(name, int(partition.partition_index)),
                }
                for name in (str(topic.name),)
                for partition in topic.partitions
            ),
        }
        for topic in request.topics
    )
    return control.encode_in_steps(KEY, version, {"throttle_time_ms": 0, "topics": topics})
