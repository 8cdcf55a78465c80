"""OffsetFetch, key 9, versions 1-8 (8 asks for many groups at once): how far consumers have read, from ZooKeeper.

For a partition without a committed offset the response is offset -1 without an error, as in Kafka. Null topics (2 and later) mean
all. Metadata and leader epoch are returned as they were committed."""

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from ...coordination.committed_offset import CommittedOffset
from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..errors import Overloaded
from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.response_generators import ResponseGenerator
from ..groups.offset_commits import Offsets, Position
from .broker import Broker, required
from .group_id import refusal
from .request import Request

KEY = 9

NOTHING = CommittedOffset(-1)
MOST_GROUPS = 1_000
"""Groups that one request may name; further ones are refused by name."""

Wanted = list[Position] | None


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the offsets of each group, once ZooKeeper has answered."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    groups: dict[str, Wanted] = {}
    errors: dict[str, ErrorCode] = {}
    asked: dict[str, list[Position] | None] = {}
    for one in required(decoded.groups) if version >= 8 else (decoded,):
        group = str(one.group_id)
        groups[group] = wanted = yield from _wanted(one.topics)
        errors[group] = refusal(broker, group) if len(groups) <= MOST_GROUPS else ErrorCode.INVALID_REQUEST
        if errors[group] is ErrorCode.NONE:
            asked[group] = None if wanted is None else (yield from _known(broker, wanted))
        yield

    def answer(found: Mapping[str, Offsets | Exception]) -> Generator[None, None, bytes]:
        return _answer(version, (_group(version, group, groups[group], errors[group], found.get(group, {})) for group in groups))

    if not asked:
        return (yield from answer({}))
    deferred = DeferredResponse()

    def done(found: Mapping[str, Offsets | Exception]) -> None:
        broker.generators.complete(deferred, answer(found))

    def failed(error: Exception) -> None:
        done(dict.fromkeys(asked, error))

    if not broker.offsets.fetch(asked, done, failed):
        failed(Overloaded())
    return deferred


def _wanted(topics: Any) -> Generator[None, None, Wanted]:
    if topics is None:
        return None
    wanted = []
    for topic in topics:
        for index in required(topic.partition_indexes):
            wanted.append((str(topic.name), int(index)))
            yield
    return wanted


def _known(broker: Broker, wanted: Iterable[Position]) -> Generator[None, None, list[Position]]:
    known = []
    for position in wanted:
        if broker.topics.catalog.has(*position):
            known.append(position)
        yield
    return known


def _group(version: int, group: str, wanted: Wanted, error: ErrorCode, found: Offsets | Exception) -> dict[str, Any]:
    if isinstance(found, Exception):
        found, error = {}, ErrorCode.COORDINATOR_NOT_AVAILABLE
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(found) if wanted is None else wanted:
        topics.setdefault(topic, []).append(index)
    own_error = error if version < 2 else ErrorCode.NONE
    each = (
        {
            "name": topic,
            "partitions": (_partition(index, found.get((topic, index), NOTHING), own_error) for index in topics[topic]),
        }
        for topic in topics
    )
    return {"group_id": group, "topics": each, "error_code": error}


def _partition(index: int, committed: CommittedOffset, error: ErrorCode) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error,
    }


def _answer(version: int, answers: Iterable[dict[str, Any]]) -> Generator[None, None, bytes]:
    if version >= 8:
        message: dict[str, Any] = {"throttle_time_ms": 0, "groups": answers}
    else:
        (only,) = answers
        message = {"throttle_time_ms": 0, "topics": only["topics"], "error_code": only["error_code"]}
    return control.encode_in_steps(KEY, version, message)
