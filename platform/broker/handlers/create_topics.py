"""CreateTopics, key 19, versions 2-7 (0 and 1 are advertised, not read: no client of today asks for them): topics with their
partitions and settings.

One replica a partition. Settings are checked against the table of `topic_settings`, and every fault is named in the answer's
message."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from .. import topic_name, topic_settings
from ..later import Later
from .context import Context, required, respond

KEY = 19

MOST_PARTITIONS = 10_000
"""Of one topic; each costs a file and its share of memory."""
BY_DEFAULT = -1

Refusal = tuple[ErrorCode, str]


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return what became of each topic, once ZooKeeper has them all."""
    request = control.decode_request(KEY, version, body)
    results: dict[str, dict[str, Any]] = {}
    to_make: dict[str, tuple[int, dict[str, str]]] = {}
    named = Counter(str(topic.name) for topic in required(request.topics))
    for topic in request.topics:
        name = str(topic.name)
        refusal = (ErrorCode.INVALID_REQUEST, "named twice in one request") if named[name] > 1 else _refusal(context, topic)
        if refusal is not None:
            results[name] = _result(name, *refusal)
            continue
        partition_count = context.settings.num_partitions if topic.num_partitions == BY_DEFAULT else int(topic.num_partitions)
        config = {str(one.name): str(one.value) for one in required(topic.configs)}
        if request.validate_only:
            results[name] = _made(context, name, partition_count, config)
        else:
            to_make[name] = (partition_count, config)
    if not to_make:
        return _answer(version, results)
    return _make(context, version, results, to_make)


def _make(
    context: Context, version: int, results: dict[str, dict[str, Any]], to_make: Mapping[str, tuple[int, dict[str, str]]]
) -> Later:
    later = Later()
    waiting = set(to_make)
    for name, (partition_count, config) in to_make.items():

        def done(
            outcome: bool | Exception, name: str = name, partition_count: int = partition_count, config: dict[str, str] = config
        ) -> None:
            waiting.discard(name)
            if outcome is True:
                results[name] = _made(context, name, partition_count, config)
            elif outcome is False:
                results[name] = _result(name, ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")
            else:
                results[name] = _result(name, ErrorCode.REQUEST_TIMED_OUT, f"topic {name!r} could not be made now: {outcome}")
            if not waiting:
                later.complete(respond(_answer(version, results)))

        context.topics.create(name, partition_count, config, done)
    return later


def _refusal(context: Context, topic: Any) -> Refusal | None:
    name = str(topic.name)
    if (fault := topic_name.fault_of(name)) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, fault
    if name in context.topics.catalog.topics:
        return ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already"
    if required(topic.assignments):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "this cluster places partitions itself: give their number instead"
    if topic.num_partitions != BY_DEFAULT and not 1 <= topic.num_partitions <= MOST_PARTITIONS:
        return ErrorCode.INVALID_PARTITIONS, f"{topic.num_partitions} partitions: give 1 to {MOST_PARTITIONS}"
    if topic.replication_factor not in (BY_DEFAULT, 1):
        return ErrorCode.INVALID_REPLICATION_FACTOR, f"replication factor {topic.replication_factor}: partitions have one replica"
    faults = topic_settings.faults_of({str(one.name): one.value for one in required(topic.configs)})
    if faults:
        return ErrorCode.INVALID_CONFIG, "; ".join(faults)
    return None


def _made(context: Context, name: str, partition_count: int, config: dict[str, str]) -> dict[str, Any]:
    values = topic_settings.values_in_force(config, context.settings.topic_defaults)
    return _result(
        name,
        ErrorCode.NONE,
        None,
        num_partitions=partition_count,
        replication_factor=1,
        configs=[
            {"name": setting, "value": value, "read_only": False, "config_source": source, "is_sensitive": False}
            for setting, (value, source) in values.items()
        ],
    )


def _result(name: str, error: ErrorCode, message: str | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "topic_id": None, "error_code": error, "error_message": message, "configs": [], **more}


def _answer(version: int, results: Mapping[str, Mapping[str, Any]]) -> bytes:
    return control.encode_response(KEY, version, {"throttle_time_ms": 0, "topics": list(results.values())})
