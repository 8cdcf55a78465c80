"""OffsetFetch, key 9, versions 1-8 (8 asks for many groups at once): how far consumers have read, from ZooKeeper.

A partition without a committed offset is answered with offset -1 and no error, as Kafka does. Null topics (2 and later) mean
all."""

from collections.abc import Mapping
from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from ..later import Later
from ..offset_desk import Position
from .context import Context, required, respond
from .group_id import is_usable

KEY = 9

NO_OFFSET = -1

Wanted = list[Position] | None


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return the offsets of each group once ZooKeeper has told them."""
    request = control.decode_request(KEY, version, body)
    groups = (
        {str(group.group_id): _wanted(group.topics) for group in required(request.groups)}
        if version >= 8
        else {str(request.group_id): _wanted(request.topics)}
    )
    answers: dict[str, dict[str, Any]] = {}
    waiting = set(groups)
    later = Later()

    def settle(group: str, error: ErrorCode, found: Mapping[Position, int]) -> None:
        answers[group] = _group(version, group, groups[group], error, found)
        waiting.discard(group)
        if not waiting:
            later.complete(respond(_answer(version, groups, answers)))

    if not groups:
        return _answer(version, groups, answers)
    for group, wanted in groups.items():
        if not is_usable(group):
            settle(group, ErrorCode.INVALID_GROUP_ID, {})
            continue

        def done(found: Mapping[Position, int], group: str = group) -> None:
            settle(group, ErrorCode.NONE, found)

        def failed(error: Exception, group: str = group) -> None:
            settle(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, {})

        usable = None if wanted is None else [position for position in wanted if _is_known(context, position)]
        if not context.offsets.fetch(group, usable, done, failed):
            settle(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, {})
    return later


def _wanted(topics: Any) -> Wanted:
    if topics is None:
        return None
    return [(str(topic.name), int(index)) for topic in topics for index in required(topic.partition_indexes)]


def _is_known(context: Context, position: Position) -> bool:
    entry = context.topics.catalog.topics.get(position[0])
    return entry is not None and position[1] in entry.partitions


def _group(version: int, group: str, wanted: Wanted, error: ErrorCode, found: Mapping[Position, int]) -> dict[str, Any]:
    positions = sorted(found) if wanted is None else wanted
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, index in positions:
        topics.setdefault(topic, []).append(
            {
                "partition_index": index,
                "committed_offset": found.get((topic, index), NO_OFFSET),
                "committed_leader_epoch": -1,
                "metadata": "",
                "error_code": error if version < 2 else ErrorCode.NONE,
            }
        )
    return {
        "group_id": group,
        "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
        "error_code": error,
    }


def _answer(version: int, groups: Mapping[str, Wanted], answers: Mapping[str, dict[str, Any]]) -> bytes:
    if version >= 8:
        message: dict[str, Any] = {"throttle_time_ms": 0, "groups": [answers[group] for group in groups]}
    else:
        (only,) = answers.values()
        message = {"throttle_time_ms": 0, "topics": only["topics"], "error_code": only["error_code"]}
    return control.encode_response(KEY, version, message)
