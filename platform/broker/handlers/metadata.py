"""Metadata, key 3, versions 0-9: the brokers, and of each topic asked for its partitions and their leaders.

Topic ids (10 and later) are not served. An unknown topic is made on first use where the settings and the request allow it;
the answer waits a bounded time for that, since clients that are told LEADER_NOT_AVAILABLE sleep before they ask again. Leader
epochs are -1 throughout: nobody is to validate positions by them."""

import struct
from collections.abc import Container, Sequence
from typing import Any

from ...runtime.layout import is_internal
from ...wire import control
from ...wire.errors import ErrorCode, MalformedFrame
from ...wire.primitives import read_count, read_name, skip_tags
from .. import topic_name
from ..catalog import TopicEntry
from ..later import Later
from .context import Context, respond

KEY = 3

PLATFORM_PREFIX = "_headrace."
"""Topics that the platform itself lives on: one partition, never expired, also when somebody reads them before their owner
has made them.
"""
AUTHORIZED_OPERATIONS_NOT_GIVEN = -(2**31)


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return brokers and topics; a Later while a topic that the request has called into being is made."""
    wanted, may_create = read_request(version, body)
    if wanted is not None and may_create and context.settings.auto_create_topics:
        known = context.topics.catalog.topics
        missing = [name for name in dict.fromkeys(wanted) if name not in known and topic_name.fault_of(name) is None]
        if missing:
            return _create_then_answer(context, version, wanted, missing)
    return _answer(context, version, wanted)


def read_request(version: int, body: memoryview) -> tuple[list[str] | None, bool]:
    """Return the topics asked for (None: all) and whether they may be made. Raises: MalformedFrame.

    By hand, because librdkafka asks for all topics of version 9 in eight bytes where five are meant: read as Kafka reads them
    there is an unknown tagged field of no length and a byte left over, which is to be overlooked and which kio refuses.
    """
    flexible = version >= 9
    try:
        topic_count, at = read_count(body, 0, flexible=flexible, each=2)
        names = []
        for _ in range(topic_count):
            name, at = read_name(body, at, flexible=flexible)
            names.append(name)
            if flexible:
                at = skip_tags(body, at)
        may_create = version < 4 or body[at] != 0
    except (struct.error, IndexError):
        raise MalformedFrame(f"a Metadata v{version} request of {len(body)} bytes is cut") from None
    is_all = topic_count < 0 or (version == 0 and topic_count == 0)
    return (None if is_all else names), may_create


def _create_then_answer(context: Context, version: int, wanted: Sequence[str], missing: Sequence[str]) -> Later:
    waiting = set(missing)

    def answer() -> tuple[bytes]:
        return respond(_answer(context, version, wanted, being_made=frozenset(missing)))

    later = Later(deadline_ms=context.loop.now_ms + context.settings.topic_creation_wait_ms, at_deadline=answer)

    for name in missing:

        def done(outcome: bool | Exception, name: str = name) -> None:
            waiting.discard(name)
            if not waiting:
                later.complete(answer())

        partition_count, config = _first_use(context, name)
        context.topics.create(name, partition_count, config, done)
    return later


def _first_use(context: Context, name: str) -> tuple[int, dict[str, str]]:
    if name.startswith(PLATFORM_PREFIX):
        return 1, {"retention.ms": "-1"}
    return context.settings.num_partitions, {}


def _answer(context: Context, version: int, wanted: Sequence[str] | None, being_made: frozenset[str] = frozenset()) -> bytes:
    """Return the answer, from memory where the same was asked before and nothing has changed: writing it takes 0.2 ms and
    more.
    """
    key = (version, None if wanted is None else tuple(wanted), being_made)
    answer = context.metadata_answers.get(key, context.topics.catalog)
    if answer is None:
        answer = _written(context, version, wanted, being_made)
        context.metadata_answers.put(key, context.topics.catalog, answer)
    return answer


def _written(context: Context, version: int, wanted: Sequence[str] | None, being_made: frozenset[str]) -> bytes:
    catalog = context.topics.catalog
    names = sorted(catalog.topics) if wanted is None else list(dict.fromkeys(wanted))
    own_id = context.settings.broker_id
    brokers = {
        **{broker.broker_id: (broker.host, broker.port) for broker in catalog.brokers.values()},
        own_id: (context.host, context.port),
    }
    message = {
        "throttle_time_ms": 0,
        "brokers": [
            {"node_id": broker_id, "host": host, "port": port, "rack": None}
            for broker_id, (host, port) in sorted(brokers.items())
        ],
        "cluster_id": catalog.cluster_id,
        "controller_id": own_id,
        "topics": [
            _known(entry, brokers.keys()) if (entry := catalog.topics.get(name)) is not None else _unknown(name, being_made)
            for name in names
        ],
        "cluster_authorized_operations": AUTHORIZED_OPERATIONS_NOT_GIVEN,
    }
    return control.encode_response(KEY, version, message)


def _known(entry: TopicEntry, alive: Container[int]) -> dict[str, Any]:
    partitions = []
    for index, replicas in sorted(entry.partitions.items()):
        leader = replicas[0] if replicas and replicas[0] in alive else -1
        partitions.append(
            {
                "error_code": ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                "partition_index": index,
                "leader_id": leader,
                "leader_epoch": -1,
                "replica_nodes": list(replicas),
                "isr_nodes": [leader] if leader >= 0 else [],
                "offline_replicas": [] if leader >= 0 else list(replicas),
            }
        )
    return _topic(entry.name, ErrorCode.NONE, partitions)


def _unknown(name: str, being_made: frozenset[str]) -> dict[str, Any]:
    if topic_name.fault_of(name) is not None:
        return _topic(name, ErrorCode.INVALID_TOPIC_EXCEPTION, [])
    return _topic(name, ErrorCode.LEADER_NOT_AVAILABLE if name in being_made else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def _topic(name: str, error: ErrorCode, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "error_code": error,
        "name": name,
        "is_internal": is_internal(name),
        "partitions": partitions,
        "topic_authorized_operations": AUTHORIZED_OPERATIONS_NOT_GIVEN,
    }
