"""The requests of a member of a consumer group in Kafka's own protocol. Plain functions: one request each, values in, values out.

Each API is spoken in one version that our broker and Kafka 2.0 to 4.x serve. The subscription and the assignment, which brokers
pass on unread, are in the form of Kafka's clients (`ConsumerProtocolSubscription`, `ConsumerProtocolAssignment`, version 0):

    subscription  version int16 · [topic string] · user data bytes
    assignment    version int16 · [topic string · [partition int32]] · user data bytes
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...coordination.assignment import assign
from ...wire.errors import ErrorCode, WireError
from ...wire.messages import control
from ..connection.connection import Connection
from ..errors import BadAnswer, broker_error
from ..fetch.fetched import TopicPartition

OFFSET_COMMIT, OFFSET_FETCH = (8, 5), (9, 5)
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = (11, 3), (12, 2), (13, 1), (14, 2)
PROTOCOL_TYPE = "consumer"
ASSIGNOR = "range"
"""Kafka's name of the assignment that `assign` makes: other clients of the group can join under it."""
NO_GENERATION = -1

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_NO_USER_DATA = _INT.pack(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A JoinGroup response. `members` (member id → topics) is the leader's alone."""

    generation: int
    member_id: str
    is_leader: bool
    members: Mapping[str, Sequence[str]]


def join(
    coordinator: Connection,
    group: str,
    member_id: str,
    topics: Sequence[str],
    *,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
) -> Joined:
    """Return once the group's generation is complete, at most about `rebalance_timeout_ms`. Raises the broker's refusal."""
    message = {
        "group_id": group,
        "session_timeout_ms": session_timeout_ms,
        "rebalance_timeout_ms": rebalance_timeout_ms,
        "member_id": member_id,
        "protocol_type": PROTOCOL_TYPE,
        "protocols": [{"name": ASSIGNOR, "metadata": subscription(topics)}],
    }
    answer = _ask(coordinator, JOIN_GROUP, message, timeout_ms=rebalance_timeout_ms + coordinator.timeout_ms)
    _check(answer.error_code, f"JoinGroup of {group!r}", coordinator)
    try:
        members = {one.member_id: topics_of(bytes(one.metadata)) for one in answer.members}
    except (struct.error, UnicodeDecodeError) as error:
        raise BadAnswer(coordinator.address, "JoinGroup", f"a member's subscription cannot be read: {error}") from error
    return Joined(
        generation=answer.generation_id, member_id=answer.member_id, is_leader=answer.leader == answer.member_id, members=members
    )


def sync(
    coordinator: Connection,
    group: str,
    joined: Joined,
    assignments: Mapping[str, Mapping[str, Sequence[int]]],
    *,
    timeout_ms: int,
) -> set[TopicPartition]:
    """Hand over what the leader assigned (others: nothing) and return this member's own partitions. Raises the refusal."""
    message = {
        "group_id": group,
        "generation_id": joined.generation,
        "member_id": joined.member_id,
        "assignments": [{"member_id": member, "assignment": assignment(mine)} for member, mine in assignments.items()],
    }
    answer = _ask(coordinator, SYNC_GROUP, message, timeout_ms=timeout_ms)
    _check(answer.error_code, f"SyncGroup of {group!r}", coordinator)
    try:
        return partitions_of(bytes(answer.assignment))
    except (struct.error, UnicodeDecodeError) as error:
        raise BadAnswer(coordinator.address, "SyncGroup", f"the assignment cannot be read: {error}") from error


def heartbeat(coordinator: Connection, group: str, generation: int, member_id: str, *, timeout_ms: int) -> None:
    """Return if the member is alive and its generation continues. Raises the refusal (REBALANCE_IN_PROGRESS, …)."""
    message = {"group_id": group, "generation_id": generation, "member_id": member_id}
    answer = _ask(coordinator, HEARTBEAT, message, timeout_ms=timeout_ms)
    _check(answer.error_code, f"Heartbeat of {group!r}", coordinator)


def leave(coordinator: Connection, group: str, member_id: str, *, timeout_ms: int) -> None:
    answer = _ask(coordinator, LEAVE_GROUP, {"group_id": group, "member_id": member_id}, timeout_ms=timeout_ms)
    _check(answer.error_code, f"LeaveGroup of {group!r}", coordinator)


def commit_offsets(
    coordinator: Connection,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    generation: int = NO_GENERATION,
    member_id: str = "",
    words: str = "",
) -> None:
    """Return once the offsets are durable, with `words` beside each. Without a generation: for a group without members.

    Raises the first refusal.
    """
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for name, offset in offsets.items():
        one = {"partition_index": name.partition, "committed_offset": offset, "committed_metadata": words}
        by_topic.setdefault(name.topic, []).append(one)
    message = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member_id,
        "topics": [{"name": topic, "partitions": partitions} for topic, partitions in by_topic.items()],
    }
    answer = _ask(coordinator, OFFSET_COMMIT, message)
    for topic in answer.topics:
        for one in topic.partitions:
            _check(one.error_code, f"OffsetCommit of {group!r} for {topic.name}-{one.partition_index}", coordinator)


def topics_asked(partitions: Sequence[TopicPartition] | None) -> list[dict[str, Any]] | None:
    """Return the topics of an OffsetFetch of these partitions; None, for all, where they are None."""
    if partitions is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for name in partitions:
        by_topic.setdefault(name.topic, []).append(name.partition)
    return [{"name": topic, "partition_indexes": indexes} for topic, indexes in by_topic.items()]


def fetch_offsets(coordinator: Connection, group: str, partitions: Sequence[TopicPartition] | None) -> dict[TopicPartition, int]:
    """Return the group's committed offsets of those of the partitions that have one (None: of all). Raises the first refusal."""
    answer = _ask(coordinator, OFFSET_FETCH, {"group_id": group, "topics": topics_asked(partitions)})
    _check(answer.error_code, f"OffsetFetch of {group!r}", coordinator)
    found: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            _check(one.error_code, f"OffsetFetch of {group!r} for {topic.name}-{one.partition_index}", coordinator)
            if one.committed_offset >= 0:
                found[TopicPartition(topic.name, one.partition_index)] = int(one.committed_offset)
    return found


def assigned(members: Mapping[str, Sequence[str]], partitions: Mapping[str, Sequence[int]]) -> dict[str, dict[str, list[int]]]:
    """Return member id → topic → partitions: each topic in ranges over the members that subscribe to it. Pure."""
    found: dict[str, dict[str, list[int]]] = {member: {} for member in members}
    for topic in sorted({topic for topics in members.values() for topic in topics}):
        readers = [member for member, topics in members.items() if topic in topics]
        for member, mine in assign(partitions.get(topic, ()), readers).items():
            if mine:
                found[member][topic] = mine
    return found


def subscription(topics: Sequence[str]) -> bytes:
    return b"".join([_SHORT.pack(0), _INT.pack(len(topics)), *map(_string, topics), _NO_USER_DATA])


def topics_of(data: bytes) -> list[str]:
    """Return the topics of a subscription of any version: what later versions add is behind them."""
    (count,) = _INT.unpack_from(data, _SHORT.size)
    at, topics = _SHORT.size + _INT.size, []
    for _ in range(count):
        topic, at = _read_string(data, at)
        topics.append(topic)
    return topics


def assignment(partitions: Mapping[str, Sequence[int]]) -> bytes:
    parts = [_SHORT.pack(0), _INT.pack(len(partitions))]
    for topic, indexes in partitions.items():
        parts += [_string(topic), _INT.pack(len(indexes)), *map(_INT.pack, indexes)]
    return b"".join([*parts, _NO_USER_DATA])


def partitions_of(data: bytes) -> set[TopicPartition]:
    """Return the partitions of an assignment; empty bytes are an empty one."""
    if not data:
        return set()
    (count,) = _INT.unpack_from(data, _SHORT.size)
    at, found = _SHORT.size + _INT.size, set()
    for _ in range(count):
        topic, at = _read_string(data, at)
        (size,) = _INT.unpack_from(data, at)
        indexes = struct.unpack_from(f">{max(0, size)}i", data, at + _INT.size)
        at += _INT.size * (1 + max(0, size))
        found |= {TopicPartition(topic, index) for index in indexes}
    return found


def _string(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _SHORT.unpack_from(data, at)
    end = at + _SHORT.size + size
    if end > len(data):
        raise struct.error(f"a name that would end at byte {end} of {len(data)}")
    return data[at + _SHORT.size : end].decode(), end


def _check(code: int, what: str, coordinator: Connection) -> None:
    if code != ErrorCode.NONE:
        raise broker_error(f"{what} on {coordinator.address}", int(code))


def _ask(connection: Connection, api: tuple[int, int], message: Mapping[str, Any], *, timeout_ms: int | None = None) -> Any:
    api_key, version = api
    connection.version(api_key, version, version)
    body = connection.request(api_key, version, control.encode_request(api_key, version, message), timeout_ms=timeout_ms)
    try:
        return control.decode_response(api_key, version, body)
    except WireError as error:
        raise BadAnswer(connection.address, f"API {api_key}", str(error)) from error
