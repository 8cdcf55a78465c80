"""OffsetDelete, key 47, version 0: deletes single offsets of a group. Offsets of topics that its members, of either kind, read
stay.

An offset of a deleted topic can be deleted too. A name that is neither a topic nor has an offset is an unknown partition."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping

from ...coordination.group_directory import GroupTrace
from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..errors import Overloaded
from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.response_generators import ResponseGenerator
from ..groups.group import Group
from ..groups.offset_commits import Position
from ..groups.subscription import CONSUMER, subscribed_topics
from .broker import Broker, required, respond
from .group_id import refusal
from .request import Request

KEY = 47


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each offset, once ZooKeeper has deleted it."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    group_id = str(decoded.group_id)
    positions: dict[str, dict[int, None]] = {}
    for topic in required(decoded.topics):
        of_topic = positions.setdefault(str(topic.name), {})
        for partition in required(topic.partitions):
            of_topic[int(partition.partition_index)] = None
            yield
    error = refusal(broker, group_id)
    group = broker.groups.get(group_id)
    if error is ErrorCode.NONE and group is not None and group.members and group.protocol_type != CONSUMER:
        error = ErrorCode.NON_EMPTY_GROUP
    if error is not ErrorCode.NONE:
        return _refused(version, error)
    read = _topics_read(group)
    refused: set[str] = set()
    deferred = DeferredResponse()

    def done(gone: Collection[Position]) -> None:
        def outcome(position: Position) -> ErrorCode:
            if position[0] in refused:
                return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            is_known = position in gone or broker.topics.catalog.has(*position)
            return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        broker.generators.complete(deferred, _answer(version, positions, outcome))

    def failed(error: Exception) -> None:
        deferred.complete(respond(_refused(version, ErrorCode.COORDINATOR_NOT_AVAILABLE)))

    def found(traces: Mapping[str, GroupTrace]) -> None:
        trace = traces[group_id]
        by_paper_members = {topic for member in trace.members.values() for topic in member.topics}
        refused.update(topic for topic in positions if read is None or topic in read or topic in by_paper_members)
        wanted = [
            (topic, index) for topic, indexes in positions.items() if topic not in refused for index in indexes if index >= 0
        ]
        if (group is None or not group.members) and not trace.exists:
            deferred.complete(respond(_refused(version, ErrorCode.GROUP_ID_NOT_FOUND)))
        elif not broker.offsets.forget(group_id, wanted, done, failed):
            failed(Overloaded())

    if not broker.stored_groups.describe([group_id], found, failed):
        return _refused(version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return deferred


def _topics_read(group: Group | None) -> frozenset[str] | None:
    """Return the topics that members read now. None when that is not known: any topic may be read."""
    read: frozenset[str] = frozenset()
    for member in [] if group is None else group.members.values():
        topics = subscribed_topics(member.offers[0].metadata)
        if topics is None:
            return None
        read |= topics
    return read


def _refused(version: int, error: ErrorCode) -> bytes:
    return control.encode_response(KEY, version, {"error_code": error, "throttle_time_ms": 0, "topics": ()})


def _answer(
    version: int, positions: Mapping[str, Iterable[int]], outcome: Callable[[Position], ErrorCode]
) -> Generator[None, None, bytes]:
    topics = (
        {
            "name": topic,
            "partitions": ({"partition_index": index, "error_code": outcome((topic, index))} for index in positions[topic]),
        }
        for topic in positions
    )
    return control.encode_in_steps(KEY, version, {"error_code": ErrorCode.NONE, "throttle_time_ms": 0, "topics": topics})
