"""DescribeClientQuotas, key 48, versions 0-1, AlterClientQuotas, key 49, versions 0-1 (KIP-546): limits of users and clients.

`kafka-configs.sh --entity-type users|clients` and `headrace quota` use them. An entity's quotas are changed together; the answer
comes when they are in ZooKeeper and in force here. Other brokers see them in ZooKeeper."""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from ...coordination.errors import InvalidName
from ...coordination.paths import user_of
from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..quotas.limits import DEFAULT, Entity, fault_of, written
from ..quotas.quotas import TooManyQuotas, config_after, entity_of
from .broker import Broker, required
from .fan_in import STILL_UNDER_WAY, FanIn
from .request import Request

DESCRIBE_KEY, ALTER_KEY = 48, 49
USER, CLIENT = "user", "client-id"
KINDS = (USER, CLIENT)
EXACT, IS_DEFAULT, SPECIFIED = 0, 1, 2
MOST_CHANGED = 1_000
"""Entities in one request."""
NO_QUOTAS = "this broker has no place for quotas"

Outcome = tuple[ErrorCode, str | None]
Changes = Mapping[str, str | None]
Names = tuple[tuple[str, str | None], ...]
"""An entity as a request names it: types and names, None for the default."""


def describe(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the quotas of each entity that the filter finds."""
    decoded = yield from control.decode_in_steps(DESCRIBE_KEY, request.version, request.body)
    components = {str(one.entity_type): one for one in required(decoded.components)}
    fault = _fault_of_filter(decoded.components)
    head: dict[str, Any] = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": None}
    if fault is not None:
        error, why = fault
        refused = head | {"error_code": error, "error_message": why, "entries": None}
        return control.encode_response(DESCRIBE_KEY, request.version, refused)
    limits = {} if broker.quotas is None else broker.quotas.limits
    found = (
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in _names_of(entity)],
            "values": [{"key": key, "value": value} for key, value in its.items()],
        }
        for entity, its in sorted(limits.items(), key=lambda one: (one[0][0] or "", one[0][1] or ""))
        if _is_wanted(dict(_names_of(entity)), components, is_strict=bool(decoded.strict))
    )
    return (yield from control.encode_in_steps(DESCRIBE_KEY, request.version, head | {"entries": found}))


def _fault_of_filter(components: Any) -> Outcome | None:
    counted = Counter(str(one.entity_type) for one in components)
    for kind, times in counted.items():
        if kind not in KINDS:
            return ErrorCode.UNSUPPORTED_VERSION, f"there are no quotas by {kind!r} here: by {' and '.join(KINDS)}"
        if times > 1:
            return ErrorCode.INVALID_REQUEST, f"the filter names {kind} twice"
    for one in components:
        if int(one.match_type) not in (EXACT, IS_DEFAULT, SPECIFIED) or (int(one.match_type) == EXACT) != (one.match is not None):
            return (
                ErrorCode.INVALID_REQUEST,
                f"a filter of type {one.match_type} for {one.entity_type}, with the name {one.match!r}",
            )
    return None


def _is_wanted(names: Mapping[str, str | None], components: Mapping[str, Any], *, is_strict: bool) -> bool:
    if is_strict and names.keys() != components.keys():
        return False
    for kind, one in components.items():
        if kind not in names:
            return False
        match int(one.match_type):
            case 0:
                if names[kind] != one.match:
                    return False
            case 1:
                if names[kind] is not None:
                    return False
    return True


def _names_of(entity: Entity) -> Iterator[tuple[str, str | None]]:
    for kind, step in zip(KINDS, entity, strict=True):
        if step is not None:
            yield kind, None if step == DEFAULT else user_of(step)


def alter(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each entity of the request."""
    version = request.version
    decoded = yield from control.decode_in_steps(ALTER_KEY, version, request.body)
    entries = required(decoded.entries)
    named: Counter[Names] = Counter(_named(one) for one in entries)
    results: dict[Names, Outcome] = {}
    wanted: dict[Names, tuple[Entity, Changes]] = {}
    for one in entries:
        yield
        names = _named(one)
        if named[names] > 1:
            results[names] = ErrorCode.INVALID_REQUEST, "named twice in one request"
        elif len(wanted) >= MOST_CHANGED:
            results[names] = ErrorCode.INVALID_REQUEST, f"one request changes at most {MOST_CHANGED} entities"
        elif (fault := _fault_of_change(names, one)) is not None:
            results[names] = fault
        else:
            try:
                wanted[names] = _entity(names), _changes(one)
            except InvalidName as error:
                results[names] = ErrorCode.INVALID_REQUEST, str(error)
    quotas = broker.quotas
    if quotas is None:
        results |= dict.fromkeys(wanted, (ErrorCode.UNSUPPORTED_VERSION, NO_QUOTAS))
    elif decoded.validate_only:
        results |= dict.fromkeys(wanted, (ErrorCode.NONE, None))
    elif wanted:
        changing = quotas
        fan_in = FanIn[Names, Outcome](
            broker,
            wanted,
            timeout_ms=0,
            overdue=lambda names: (ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
            answer=lambda changed: _answer(version, named, {**results, **changed}),
        )

        def begin(names: Names) -> None:
            entity, changes = wanted[names]
            changing.change(
                entity, lambda present: config_after(present, changes), lambda error: fan_in.put(names, _outcome(error))
            )

        return fan_in.start(begin)
    return (yield from _answer(version, named, results))


def _named(entry: Any) -> Names:
    return tuple(
        (str(one.entity_type), None if one.entity_name is None else str(one.entity_name)) for one in required(entry.entity)
    )


def _fault_of_change(names: Names, entry: Any) -> Outcome | None:
    kinds = [kind for kind, _ in names]
    if not kinds or len(set(kinds)) < len(kinds):
        return ErrorCode.INVALID_REQUEST, f"an entity is a {USER}, a {CLIENT}, or both, each once"
    for kind in kinds:
        if kind not in KINDS:
            return ErrorCode.INVALID_REQUEST, f"there are no quotas by {kind!r} here: by {' and '.join(KINDS)}"
    ops = required(entry.ops)
    if len({str(one.key) for one in ops}) < len(ops):
        return ErrorCode.INVALID_REQUEST, "a quota is changed twice"
    for one in ops:
        fault = fault_of(str(one.key), 1.0 if one.remove else float(one.value))
        if fault is not None:
            return ErrorCode.INVALID_REQUEST, fault
    return None


def _entity(names: Names) -> Entity:
    its = dict(names)
    return entity_of(its.get(USER), its.get(CLIENT), has_user=USER in its, has_client=CLIENT in its)


def _changes(entry: Any) -> Changes:
    return {str(one.key): None if one.remove else written(str(one.key), float(one.value)) for one in entry.ops}


def _outcome(error: Exception | None) -> Outcome:
    match error:
        case None:
            return ErrorCode.NONE, None
        case TooManyQuotas():
            return ErrorCode.POLICY_VIOLATION, str(error)
    return ErrorCode.REQUEST_TIMED_OUT, f"ZooKeeper did not take it: {error}"


def _answer(version: int, named: Counter[Names], results: Mapping[Names, Outcome]) -> Generator[None, None, bytes]:
    entries = (
        {
            "error_code": results[names][0],
            "error_message": results[names][1],
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in names],
        }
        for names in named
    )
    return control.encode_in_steps(ALTER_KEY, version, {"throttle_time_ms": 0, "entries": entries})
