"""What AlterConfigs and IncrementalAlterConfigs have in common: which resources may be changed, and the response.

A topic's own settings may be changed; the caller computes the new ones (`Plan`). A broker reads its own settings only when it
starts, so a change of one is refused by name."""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from ...wire import topic_name
from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..settings import broker_settings as broker_settings
from ..settings import topic_settings
from .broker import Broker, required
from .fan_in import NAMED_TWICE, STILL_UNDER_WAY, FanIn, outcome_of
from .request import Request

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8

Resource = tuple[int, str]
Outcome = tuple[ErrorCode, str | None]


class Operation(IntEnum):
    """The operation on a setting, in the protocol's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Plan(NamedTuple):
    """The change that a request makes to a topic's own settings."""

    faults: list[str]
    """Each names its setting. If there is one, nothing is changed."""
    change: Callable[[Mapping[str, str]], Mapping[str, str]]


MOST_SETTINGS = 1_000
"""Settings of one resource in one request. A topic has some twenty."""
MOST_NAMED_FAULTS = 20
"""Faults in one message. A request may have tens of thousands, and each fault lists the accepted values."""

Planner = Callable[[Any, Mapping[str, str]], Plan]
"""Takes a resource of the request and the topic's present own settings."""


def carry_out(broker: Broker, request: Request, key: int, plan: Planner) -> ResponseGenerator:
    """Return the outcome for each resource: for a topic, when its open partitions use the new settings."""
    version = request.version
    decoded = yield from control.decode_in_steps(key, version, request.body)
    named = Counter(map(_resource, required(decoded.resources)))
    results: dict[Resource, Outcome] = {}
    plans: dict[Resource, Plan] = {}
    for one in decoded.resources:
        yield
        resource = _resource(one)
        outcome = _checked(broker, one, plan) if named[resource] == 1 else (ErrorCode.INVALID_REQUEST, NAMED_TWICE)
        if isinstance(outcome, Plan) and not decoded.validate_only:
            plans[resource] = outcome
        else:
            results[resource] = (ErrorCode.NONE, None) if isinstance(outcome, Plan) else outcome
    if not plans:
        return (yield from _answer(key, version, results))
    fan_in = FanIn[Resource, Outcome](
        broker,
        plans,
        timeout_ms=0,
        overdue=lambda resource: (ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
        answer=lambda changed: _answer(key, version, {**results, **changed}),
    )

    def begin(resource: Resource) -> None:
        def done(outcome: bool | Exception) -> None:
            fan_in.put(resource, outcome_of(outcome, resource[1], not_done="keeps its settings"))

        broker.topics.configure(resource[1], plans[resource].change, done)

    return fan_in.start(begin)


def too_many_settings(settings: Sequence[Any]) -> tuple[ErrorCode, str] | None:
    """Return the refusal of a resource with too many settings, or None."""
    if len(settings) <= MOST_SETTINGS:
        return None
    return ErrorCode.INVALID_REQUEST, f"{len(settings)} settings of one resource: give at most {MOST_SETTINGS} in one request"


def joined(faults: Sequence[str]) -> str:
    """Return the faults as one message; of many, the first ones."""
    more = len(faults) - MOST_NAMED_FAULTS
    return "; ".join([*faults[:MOST_NAMED_FAULTS], f"and {more} more" if more > 0 else ""]).removesuffix("; ")


def _resource(one: Any) -> Resource:
    return int(one.resource_type), str(one.resource_name)


def _checked(broker: Broker, one: Any, plan: Planner) -> Plan | Outcome:
    kind, name = _resource(one)
    if (refused := too_many_settings(required(one.configs))) is not None:
        return refused
    settings = [str(setting.name) for setting in one.configs]
    twice = sorted(setting for setting, times in Counter(settings).items() if times > 1)
    if twice:
        return ErrorCode.INVALID_REQUEST, f"named twice for one resource: {', '.join(twice)}"
    if without := [str(setting.name) for setting in one.configs if setting.value is None and not _deletes(setting)]:
        return ErrorCode.INVALID_REQUEST, f"{', '.join(without)}: has no value; deleting it brings its default back"
    if kind == TOPIC:
        if (fault := topic_name.fault_of(name)) is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, fault
        entry = broker.topics.catalog.topics.get(name)
        if entry is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
        planned = plan(one, entry.config)
        return (ErrorCode.INVALID_CONFIG, joined(planned.faults)) if planned.faults else planned
    if kind in (BROKER, BROKER_LOGGER):
        return _refused_for_brokers(settings) if settings else (ErrorCode.NONE, None)
    return ErrorCode.INVALID_REQUEST, f"settings of resource type {kind} cannot be changed here: those of topics (2) can"


def _deletes(setting: Any) -> bool:
    return int(getattr(setting, "config_operation", Operation.SET)) == Operation.DELETE


def _refused_for_brokers(settings: list[str]) -> Outcome:
    known = set(broker_settings.known_names())
    if unknown := [setting for setting in settings if setting not in known]:
        return ErrorCode.INVALID_CONFIG, f"{', '.join(unknown)}: there is no such setting of a broker here"
    of_topics = [one.name for one in topic_settings.TABLE.values() if one.broker_name in settings]
    instead = f"; what topics have of their own can be changed ({', '.join(of_topics)})" if of_topics else ""
    why = "read-only while the broker runs: set it in the broker's configuration and restart it"
    return ErrorCode.INVALID_REQUEST, f"{', '.join(settings)}: {why}{instead}"


def _answer(key: int, version: int, results: Mapping[Resource, Outcome]) -> Generator[None, None, bytes]:
    responses = (
        {"error_code": error, "error_message": message, "resource_type": kind, "resource_name": name}
        for (kind, name), (error, message) in results.items()
    )
    return control.encode_in_steps(key, version, {"throttle_time_ms": 0, "responses": responses})
