"""DescribeAcls, key 29, versions 1-3, CreateAcls, key 30, versions 1-3, DeleteAcls, key 31, versions 1-3: the access rules.

Without an authorizer every request is answered SECURITY_DISABLED, as by Apache Kafka. Trap: after a closed connection an admin
tool would try again for ever and say nothing. All rules of one request come into force together; one that cannot be kept is
refused by itself."""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from ...coordination.errors import ValueTooLarge
from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.response_generators import ResponseGenerator
from ..rights.rule import Operation, Pattern, Permission, Resource, Rule, RuleFilter, fault_of, known
from .broker import Broker, required
from .fan_in import code_of
from .request import Request

DESCRIBE_KEY, CREATE_KEY, DELETE_KEY = 29, 30, 31

WHY = "no authorizer is configured: everybody may do everything here"
TOO_MANY = "the rules do not fit into ZooKeeper's node for them: use prefixes, or `*`, and delete rules that are not needed"
_REFUSED = {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": WHY}
_FINE = {"error_code": ErrorCode.NONE, "error_message": None}

Result = dict[str, Any]
Encoding = Generator[None, None, bytes]


def describe(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the rules that the filter finds, by resource."""
    decoded = yield from control.decode_in_steps(DESCRIBE_KEY, request.version, request.body)
    if broker.access is None:
        return control.encode_response(DESCRIBE_KEY, request.version, {"throttle_time_ms": 0, **_REFUSED, "resources": ()})
    wanted, fault = _filter(decoded, decoded.resource_type_filter, decoded.resource_name_filter)
    if fault is not None:
        refused = {"error_code": ErrorCode.INVALID_REQUEST, "error_message": fault}
        return control.encode_response(DESCRIBE_KEY, request.version, {"throttle_time_ms": 0, **refused, "resources": ()})
    found: dict[tuple[Resource, str, Pattern], list[Rule]] = {}
    for rule in sorted(broker.access.authorizer.rules):
        if wanted.matches(rule):
            found.setdefault((rule.resource, rule.name, rule.pattern), []).append(rule)
        yield
    resources = (
        {
            "resource_type": resource,
            "resource_name": name,
            "pattern_type": pattern,
            "acls": [
                {
                    "principal": rule.principal,
                    "host": rule.host,
                    "operation": rule.operation,
                    "permission_type": rule.permission,
                }
                for rule in rules
            ],
        }
        for (resource, name, pattern), rules in found.items()
    )
    message = {"throttle_time_ms": 0, **_FINE, "resources": resources}
    return (yield from control.encode_in_steps(DESCRIBE_KEY, request.version, message))


def create(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each rule, once it is in force here and ZooKeeper has it."""
    version = request.version
    decoded = yield from control.decode_in_steps(CREATE_KEY, version, request.body)
    creations = required(decoded.creations)
    if broker.access is None:
        return (yield from _each(CREATE_KEY, version, "results", (_REFUSED for _ in creations)))
    results: list[Result] = []
    new: set[Rule] = set()
    for one in creations:
        rule = Rule(
            known(Resource, int(one.resource_type)),
            str(one.resource_name),
            known(Pattern, int(getattr(one, "resource_pattern_type", Pattern.LITERAL))),
            str(one.principal),
            str(one.host),
            known(Operation, int(one.operation)),
            known(Permission, int(one.permission_type)),
        )
        fault = fault_of(rule)
        results.append(dict(_FINE) if fault is None else {"error_code": ErrorCode.INVALID_REQUEST, "error_message": fault})
        if fault is None:
            new.add(rule)
        yield
    if not new:
        return (yield from _each(CREATE_KEY, version, "results", results))

    def answer(outcome: frozenset[Rule] | Exception) -> Encoding:
        failed = _failed(outcome)
        shown = [failed if failed is not None and not one["error_code"] else one for one in results]
        return _each(CREATE_KEY, version, "results", shown)

    return _changed(broker, lambda rules: rules | new, answer)


def delete(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the rules that each filter has found, once they are no longer in force here and ZooKeeper has forgotten them."""
    version = request.version
    decoded = yield from control.decode_in_steps(DELETE_KEY, version, request.body)
    asked = required(decoded.filters)
    if broker.access is None:
        return (yield from _each(DELETE_KEY, version, "filter_results", ({**_REFUSED, "matching_acls": ()} for _ in asked)))
    filters: list[tuple[RuleFilter, str | None]] = []
    for one in asked:
        filters.append(_filter(one, one.resource_type_filter, one.resource_name_filter))
        yield
    fine = [wanted for wanted, fault in filters if fault is None]

    def left(rules: frozenset[Rule]) -> Iterable[Rule]:
        return [rule for rule in rules if not any(wanted.matches(rule) for wanted in fine)]

    def answer(outcome: frozenset[Rule] | Exception) -> Encoding:
        failed = _failed(outcome)
        before = sorted(outcome) if isinstance(outcome, frozenset) else []
        results = (_deleted(wanted, fault, before, failed) for wanted, fault in filters)
        return _each(DELETE_KEY, version, "filter_results", results)

    if not fine:
        return (yield from answer(frozenset()))
    return _changed(broker, left, answer)


def _changed(
    broker: Broker,
    change: Callable[[frozenset[Rule]], Iterable[Rule]],
    answer: Callable[[frozenset[Rule] | Exception], Encoding],
) -> DeferredResponse:
    assert broker.access is not None
    deferred = DeferredResponse()
    broker.access.change(change, lambda outcome: broker.generators.complete(deferred, answer(outcome)))
    return deferred


def _deleted(wanted: RuleFilter, fault: str | None, before: Sequence[Rule], failed: Result | None) -> Result:
    if fault is not None:
        return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": fault, "matching_acls": ()}
    if failed is not None:
        return {**failed, "matching_acls": ()}
    return {**_FINE, "matching_acls": [_matching(rule) for rule in before if wanted.matches(rule)]}


def _matching(rule: Rule) -> Result:
    return {
        **_FINE,
        "resource_type": rule.resource,
        "resource_name": rule.name,
        "pattern_type": rule.pattern,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation,
        "permission_type": rule.permission,
    }


def _filter(one: Any, resource: int, name: str | None) -> tuple[RuleFilter, str | None]:
    """Return the filter, and its fault. A field that Kafka may have one day must not find everything."""
    wanted = RuleFilter(
        known(Resource, int(resource)),
        None if name is None else str(name),
        known(Pattern, int(getattr(one, "pattern_type_filter", getattr(one, "pattern_type", Pattern.LITERAL)))),
        one.principal_filter,
        one.host_filter,
        known(Operation, int(one.operation)),
        known(Permission, int(one.permission_type)),
    )
    for field, value in wanted._asdict().items():
        if isinstance(value, Resource | Pattern | Operation | Permission) and value == 0:
            return wanted, f"the filter's {field} is not known here"
    return wanted, None


def _failed(outcome: frozenset[Rule] | Exception) -> Result | None:
    if isinstance(outcome, frozenset):
        return None
    if isinstance(outcome, ValueTooLarge):
        return {"error_code": ErrorCode.POLICY_VIOLATION, "error_message": TOO_MANY}
    return {"error_code": code_of(outcome), "error_message": f"the rules could not be changed now: {outcome}"}


def _each(key: int, version: int, name: str, results: Iterable[Result]) -> Encoding:
    return control.encode_in_steps(key, version, {"throttle_time_ms": 0, name: results})
