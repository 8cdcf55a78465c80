"""CreateTopics, key 19, versions 0-7: topics with their partitions and settings.

One replica a partition; where each lies may be said by hand. Settings are checked against the table of `topic_settings`, and
every fault is named in the answer's message."""

from collections.abc import Generator, Iterable, Mapping
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

from ...wire import control, topic_name
from ...wire.errors import ErrorCode
from .. import topic_settings
from ..catalog import Places
from ..slices import Steps
from . import replica_assignment
from .config_changes import told, too_many_settings
from .context import Context, required
from .gathering import STILL_UNDER_WAY, Gathering, code_of
from .replica_assignment import MOST_PARTITIONS, Refusal

KEY = 19

BY_DEFAULT = -1


Result = Mapping[str, Any]


class _Wanted(NamedTuple):
    partition_count: int
    config: dict[str, str]
    places: Places | None


def handle(context: Context, version: int, body: memoryview, peer: str) -> Steps:
    """Return what became of each topic, once ZooKeeper has them all."""
    request = yield from control.decode_in_steps(KEY, version, body)
    refused, granted = yield from replica_assignment.sorted_out(
        required(request.topics), partial(_refusal, context), partial(_partition_count, context)
    )
    results = {name: _result(name, *refusal) for name, refusal in refused.items()}
    to_make = {}
    for name, topic in granted.items():
        to_make[name] = _wanted(context, topic)
        yield
    if request.validate_only or not to_make:
        made = (_made(context, name, wanted) for name, wanted in to_make.items())
        return (yield from _answer(version, chain(results.values(), made)))
    gathering = Gathering[str, Result](
        context,
        to_make,
        timeout_ms=control.milliseconds(request.timeout),
        overdue=lambda name: _result(name, ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
        answer=lambda made: _answer(version, chain(results.values(), made.values())),
    )

    def begin(name: str) -> None:
        wanted = to_make[name]

        def done(outcome: bool | Exception) -> None:
            gathering.put(name, _outcome(context, name, wanted, outcome))

        context.topics.create(name, wanted.partition_count, wanted.config, done, wanted.places)

    return gathering.start(begin)


def _outcome(context: Context, name: str, wanted: _Wanted, outcome: bool | Exception) -> Result:
    if outcome is True:
        return _made(context, name, wanted)
    if outcome is False:
        return _result(name, ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")
    return _result(name, code_of(outcome), f"topic {name!r} could not be made now: {outcome}")


def _wanted(context: Context, topic: Any) -> _Wanted:
    places = {int(one.partition_index): tuple(map(int, one.broker_ids)) for one in topic.assignments}
    return _Wanted(_partition_count(context, topic), topic_settings.kept(_given(topic)), dict(sorted(places.items())) or None)


def _partition_count(context: Context, topic: Any) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return context.settings.num_partitions if topic.num_partitions == BY_DEFAULT else int(topic.num_partitions)


def _given(topic: Any) -> dict[str, str | None]:
    return {str(one.name): one.value for one in required(topic.configs)}


def _refusal(context: Context, topic: Any) -> Refusal | None:
    name = str(topic.name)
    if (fault := topic_name.fault_of(name)) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, fault
    if name in context.topics.catalog.topics:
        return ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already"
    if (refused := too_many_settings(topic.configs)) is not None:
        return refused
    if faults := topic_settings.faults_of(_given(topic)):
        return ErrorCode.INVALID_CONFIG, told(faults)
    if required(topic.assignments):
        if (refusal := _placed_wrongly(context, topic)) is not None:
            return refusal
    elif topic.num_partitions > MOST_PARTITIONS:
        return replica_assignment.too_many(topic.num_partitions)
    elif topic.num_partitions < 1 and topic.num_partitions != BY_DEFAULT:
        return ErrorCode.INVALID_PARTITIONS, f"{topic.num_partitions} partitions: give 1 to {MOST_PARTITIONS}"
    if topic.replication_factor not in (BY_DEFAULT, 1):
        return ErrorCode.INVALID_REPLICATION_FACTOR, f"replication factor {topic.replication_factor}: partitions have one replica"
    return None


def _placed_wrongly(context: Context, topic: Any) -> Refusal | None:
    if topic.num_partitions != BY_DEFAULT or topic.replication_factor != BY_DEFAULT:
        return (
            ErrorCode.INVALID_REQUEST,
            "an assignment by hand stands for both numbers: give -1 partitions and -1 replicas with it",
        )
    if len(topic.assignments) > MOST_PARTITIONS:
        return replica_assignment.too_many(len(topic.assignments))
    by_index = {int(one.partition_index): required(one.broker_ids) for one in topic.assignments}
    if sorted(by_index) != list(range(len(topic.assignments))):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions are numbered from 0 on, none left out, none twice"
    return replica_assignment.fault_of([by_index[index] for index in sorted(by_index)], context.broker_ids)


def _made(context: Context, name: str, wanted: _Wanted) -> Result:
    configs = _configs(tuple(wanted.config.items()), tuple(context.settings.topic_defaults.items()))
    made = {"topic_id": context.topic_id(name), "num_partitions": wanted.partition_count, "replication_factor": 1}
    return _result(name) | made | {"configs": configs}


def _result(name: str, error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> dict[str, Any]:
    nothing = {"topic_id": None, "num_partitions": -1, "replication_factor": -1, "configs": ()}
    return {"name": name, "error_code": error, "error_message": message, **nothing}


@lru_cache(100)
def _configs(own: tuple[tuple[str, str], ...], defaults: tuple[tuple[str, str], ...]) -> tuple[Mapping[str, Any], ...]:
    always = {"read_only": False, "is_sensitive": False}
    return tuple(
        {"name": name, "value": value, "config_source": source, **always}
        for name, (value, source) in topic_settings.values_in_force(dict(own), dict(defaults)).items()
    )


def _answer(version: int, results: Iterable[Result]) -> Generator[None, None, bytes]:
    return control.encode_in_steps(KEY, version, {"throttle_time_ms": 0, "topics": results})
