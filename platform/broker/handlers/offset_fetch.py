"""OffsetFetch, key 9, versions 1-8 (8 asks for many groups at once): how far consumers have read, from ZooKeeper.

A partition without a committed offset is answered with offset -1 and no error, as Kafka does. Null topics (2 and later) mean
all. Metadata and leader epoch come back as they were committed."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...coordination.committed_offset import CommittedOffset
from ...wire import control
from ...wire.errors import ErrorCode
from ..errors import Overloaded
from ..later import Later
from ..offset_desk import Offsets, Position
from .context import Context, required, respond
from .group_id import refusal

KEY = 9

NOTHING = CommittedOffset(-1)
MOST_GROUPS = 1_000
"""Groups that one request is answered for; further ones are refused by name."""

Wanted = list[Position] | None


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return the offsets of each group once ZooKeeper has told them."""
    request = control.decode_request(KEY, version, body)
    groups = (
        {str(group.group_id): _wanted(group.topics) for group in required(request.groups)}
        if version >= 8
        else {str(request.group_id): _wanted(request.topics)}
    )
    errors = {group: refusal(context, group) for group in groups}
    for group in list(groups)[MOST_GROUPS:]:
        errors[group] = ErrorCode.INVALID_REQUEST
    asked = {
        group: None if wanted is None else [position for position in wanted if context.topics.catalog.has(*position)]
        for group, wanted in groups.items()
        if errors[group] is ErrorCode.NONE
    }

    def answer(found: Mapping[str, Offsets | Exception]) -> bytes:
        answers = []
        for group, wanted in groups.items():
            offsets, error = found.get(group, {}), errors[group]
            if isinstance(offsets, Exception):
                offsets, error = {}, ErrorCode.COORDINATOR_NOT_AVAILABLE
            answers.append(_group(version, group, wanted, error, offsets))
        return _answer(version, answers)

    if not asked:
        return answer({})
    later = Later()

    def done(found: Mapping[str, Offsets | Exception]) -> None:
        later.complete(respond(answer(found)))

    def failed(error: Exception) -> None:
        done(dict.fromkeys(asked, error))

    if not context.offsets.fetch(asked, done, failed):
        failed(Overloaded())
    return later


def _wanted(topics: Any) -> Wanted:
    if topics is None:
        return None
    return [(str(topic.name), int(index)) for topic in topics for index in required(topic.partition_indexes)]


def _group(version: int, group: str, wanted: Wanted, error: ErrorCode, found: Offsets) -> dict[str, Any]:
    positions = sorted(found) if wanted is None else wanted
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, index in positions:
        committed = found.get((topic, index), NOTHING)
        topics.setdefault(topic, []).append(
            {
                "partition_index": index,
                "committed_offset": committed.offset,
                "committed_leader_epoch": committed.leader_epoch,
                "metadata": committed.metadata,
                "error_code": error if version < 2 else ErrorCode.NONE,
            }
        )
    return {
        "group_id": group,
        "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
        "error_code": error,
    }


def _answer(version: int, answers: Sequence[dict[str, Any]]) -> bytes:
    if version >= 8:
        message: dict[str, Any] = {"throttle_time_ms": 0, "groups": answers}
    else:
        (only,) = answers
        message = {"throttle_time_ms": 0, "topics": only["topics"], "error_code": only["error_code"]}
    return control.encode_response(KEY, version, message)
