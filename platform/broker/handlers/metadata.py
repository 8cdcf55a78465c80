"""Metadata, key 3, versions 0-9: the brokers, and of each topic asked for its partitions and their leaders.

Topic ids (10 and later) are not served. An unknown topic is made on first use where the settings and the request allow it;
the answer waits a bounded time for that, since clients that are told LEADER_NOT_AVAILABLE sleep before they ask again. Leader
epochs are -1 throughout: nobody is to validate positions by them."""

from collections.abc import Sequence
from typing import Any

from ...runtime.layout import is_internal
from ...wire import control
from ...wire.errors import ErrorCode
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
    request = control.decode_request(KEY, version, body)
    wanted = _wanted(version, request)
    if wanted is None or not _may_create(context, version, request):
        return _answer(context, version, wanted)
    known = context.topics.catalog.topics
    missing = [name for name in dict.fromkeys(wanted) if name not in known and topic_name.fault_of(name) is None]
    if not missing:
        return _answer(context, version, wanted)
    return _create_then_answer(context, version, wanted, missing)


def _wanted(version: int, request: Any) -> list[str] | None:
    """Return the names asked for, None for all."""
    if request.topics is None or (version == 0 and not request.topics):
        return None
    return [str(topic.name) for topic in request.topics]


def _may_create(context: Context, version: int, request: Any) -> bool:
    return context.settings.auto_create_topics and (version < 4 or bool(request.allow_auto_topic_creation))


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


def _known(entry: TopicEntry, alive: Any) -> dict[str, Any]:
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
