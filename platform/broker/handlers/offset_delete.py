"""OffsetDelete, key 47, version 0: single offsets of a group go. Those of topics that its members, of either kind, read stay.

An offset of a topic that is gone can be deleted too; what is neither a topic nor an offset is an unknown partition."""

from collections.abc import Collection, Mapping
from typing import Any

from ...coordination.group_directory import GroupTrace
from ...wire import control
from ...wire.errors import ErrorCode
from ..groups.group import Group
from ..groups.subscription import CONSUMER, subscribed_topics
from ..later import Later
from ..offset_desk import Position
from .context import Context, required, respond
from .group_id import refusal

KEY = 47


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return what became of each offset, once it is out of ZooKeeper."""
    request = control.decode_request(KEY, version, body)
    group_id = str(request.group_id)
    positions = [
        (str(topic.name), int(partition.partition_index))
        for topic in required(request.topics)
        for partition in required(topic.partitions)
    ]
    error = refusal(context, group_id)
    group = context.groups.get(group_id)
    if error is ErrorCode.NONE and group is not None and group.members and group.protocol_type != CONSUMER:
        error = ErrorCode.NON_EMPTY_GROUP
    if error is not ErrorCode.NONE:
        return _answer(version, error, {})
    read = _topics_read(group)
    refused: dict[Position, ErrorCode] = {}
    later = Later()

    def done(gone: Collection[Position]) -> None:
        found = {
            position: ErrorCode.NONE
            if position in gone or context.topics.catalog.has(*position)
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for position in positions
        }
        later.complete(respond(_answer(version, ErrorCode.NONE, found | refused)))

    def failed(error: Exception) -> None:
        later.complete(respond(_answer(version, ErrorCode.COORDINATOR_NOT_AVAILABLE, {})))

    def found(traces: Mapping[str, GroupTrace]) -> None:
        trace = traces[group_id]
        by_paper_members = {topic for member in trace.members.values() for topic in member.topics}
        for position in positions:
            if read is None or position[0] in read or position[0] in by_paper_members:
                refused[position] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        wanted = [position for position in positions if position not in refused and position[1] >= 0]
        if (group is None or not group.members) and not trace.exists:
            later.complete(respond(_answer(version, ErrorCode.GROUP_ID_NOT_FOUND, {})))
        elif not context.offsets.forget(group_id, wanted, done, failed):
            later.complete(respond(_answer(version, ErrorCode.COORDINATOR_NOT_AVAILABLE, {})))

    if not context.group_traces.describe([group_id], found, failed):
        return _answer(version, ErrorCode.COORDINATOR_NOT_AVAILABLE, {})
    return later


def _topics_read(group: Group | None) -> frozenset[str] | None:
    """Return the topics that members read now; None when it cannot be told, so that all have to be taken for read."""
    read: frozenset[str] = frozenset()
    for member in [] if group is None else group.members.values():
        topics = subscribed_topics(member.offers[0].metadata)
        if topics is None:
            return None
        read |= topics
    return read


def _answer(version: int, error: ErrorCode, found: Mapping[Position, ErrorCode]) -> bytes:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, index), code in found.items():
        topics.setdefault(topic, []).append({"partition_index": index, "error_code": code})
    message = {
        "error_code": error,
        "throttle_time_ms": 0,
        "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
    }
    return control.encode_response(KEY, version, message)
