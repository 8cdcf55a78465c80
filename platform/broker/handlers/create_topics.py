"""CreateTopics, key 19, versions 0-7: creates topics with their partitions and settings.

The replicas are spread over the live brokers, or put where the request says. Settings are checked against the table of
`topic_settings`, and the response's message names every fault."""

from collections.abc import Generator, Iterable, Mapping
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

from ...wire import topic_name
from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..partitions.catalog import ReplicaAssignment
from ..settings import topic_settings
from . import replica_assignment
from .broker import Broker, required
from .config_changes import joined, too_many_settings
from .fan_in import STILL_UNDER_WAY, FanIn, code_of
from .replica_assignment import MOST_PARTITIONS, Refusal
from .request import Request

KEY = 19

BY_DEFAULT = -1


Result = Mapping[str, Any]


class _Wanted(NamedTuple):
    partition_count: int
    config: dict[str, str]
    replicas: ReplicaAssignment | None
    replication_factor: int


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each topic, once ZooKeeper has them all."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    refused, granted = yield from replica_assignment.sorted_out(
        required(decoded.topics), partial(_refusal, broker), partial(_partition_count, broker)
    )
    results = {name: _result(name, *refusal) for name, refusal in refused.items()}
    to_make = {}
    for name, topic in granted.items():
        to_make[name] = _wanted(broker, topic)
        yield
    if decoded.validate_only or not to_make:
        made = (_made(broker, name, wanted) for name, wanted in to_make.items())
        return (yield from _answer(version, chain(results.values(), made)))
    fan_in = FanIn[str, Result](
        broker,
        to_make,
        timeout_ms=control.milliseconds(decoded.timeout),
        overdue=lambda name: _result(name, ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
        answer=lambda made: _answer(version, chain(results.values(), made.values())),
    )

    def begin(name: str) -> None:
        wanted = to_make[name]

        def done(outcome: bool | Exception) -> None:
            fan_in.put(name, _outcome(broker, name, wanted, outcome))

        broker.topics.create(name, wanted.partition_count, wanted.config, done, wanted.replicas, wanted.replication_factor)

    return fan_in.start(begin)


def _outcome(broker: Broker, name: str, wanted: _Wanted, outcome: bool | Exception) -> Result:
    if outcome is True:
        return _made(broker, name, wanted)
    if outcome is False:
        return _result(name, ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")
    return _result(name, code_of(outcome), f"topic {name!r} could not be made now: {outcome}")


def _wanted(broker: Broker, topic: Any) -> _Wanted:
    replicas = {int(one.partition_index): tuple(map(int, one.broker_ids)) for one in topic.assignments}
    factor = len(replicas[0]) if replicas else _replication_factor(broker, topic)
    config = topic_settings.kept(_given(topic))
    return _Wanted(_partition_count(broker, topic), config, dict(sorted(replicas.items())) or None, factor)


def _partition_count(broker: Broker, topic: Any) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return broker.settings.num_partitions if topic.num_partitions == BY_DEFAULT else int(topic.num_partitions)


def _replication_factor(broker: Broker, topic: Any) -> int:
    asked = int(topic.replication_factor)
    return broker.default_replication_factor(str(topic.name)) if asked == BY_DEFAULT else asked


def _given(topic: Any) -> dict[str, str | None]:
    return {str(one.name): one.value for one in required(topic.configs)}


def _refusal(broker: Broker, topic: Any) -> Refusal | None:
    name = str(topic.name)
    if (fault := topic_name.fault_of(name)) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, fault
    if name in broker.topics.catalog.topics:
        return ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already"
    if (refused := too_many_settings(topic.configs)) is not None:
        return refused
    if faults := topic_settings.faults_of(_given(topic)):
        return ErrorCode.INVALID_CONFIG, joined(faults)
    if required(topic.assignments):
        if (refusal := _placed_wrongly(broker, topic)) is not None:
            return refusal
    elif topic.num_partitions > MOST_PARTITIONS:
        return replica_assignment.too_many(topic.num_partitions)
    elif topic.num_partitions < 1 and topic.num_partitions != BY_DEFAULT:
        return ErrorCode.INVALID_PARTITIONS, f"{topic.num_partitions} partitions: give 1 to {MOST_PARTITIONS}"
    if topic.assignments:
        return None
    return replica_assignment.factor_refusal(_replication_factor(broker, topic), broker.broker_ids)


def _placed_wrongly(broker: Broker, topic: Any) -> Refusal | None:
    if topic.num_partitions != BY_DEFAULT or topic.replication_factor != BY_DEFAULT:
        return (
            ErrorCode.INVALID_REQUEST,
            "a manual assignment sets both numbers: give -1 partitions and -1 replicas with it",
        )
    if len(topic.assignments) > MOST_PARTITIONS:
        return replica_assignment.too_many(len(topic.assignments))
    by_index = {int(one.partition_index): required(one.broker_ids) for one in topic.assignments}
    if sorted(by_index) != list(range(len(topic.assignments))):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions are numbered from 0 on, none left out, none twice"
    return replica_assignment.fault_of([by_index[index] for index in sorted(by_index)], broker.broker_ids)


def _made(broker: Broker, name: str, wanted: _Wanted) -> Result:
    factor = wanted.replication_factor
    configs = _configs(tuple(wanted.config.items()), tuple(broker.settings.topic_defaults.items()), factor)
    made = {"topic_id": broker.topic_id(name), "num_partitions": wanted.partition_count, "replication_factor": factor}
    return _result(name) | made | {"configs": configs}


def _result(name: str, error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> dict[str, Any]:
    nothing = {"topic_id": None, "num_partitions": -1, "replication_factor": -1, "configs": ()}
    return {"name": name, "error_code": error, "error_message": message, **nothing}


@lru_cache(100)
def _configs(
    own: tuple[tuple[str, str], ...], defaults: tuple[tuple[str, str], ...], replication_factor: int
) -> tuple[Mapping[str, Any], ...]:
    always = {"read_only": False, "is_sensitive": False}
    values = topic_settings.values_in_force(dict(own), dict(defaults), replication_factor)
    return tuple({"name": name, "value": value, "config_source": source, **always} for name, (value, source) in values.items())


def _answer(version: int, results: Iterable[Result]) -> Generator[None, None, bytes]:
    return control.encode_in_steps(KEY, version, {"throttle_time_ms": 0, "topics": results})
