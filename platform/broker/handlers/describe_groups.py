"""DescribeGroups, key 15, versions 0-5: state, members and assignments of groups.

A group without members is Empty while it has offsets, or while a new member has an id and has not joined. Otherwise it is Dead,
Kafka's word for a group that does not exist. Consumers that coordinate through ZooKeeper are shown as members too, with the
partitions that they own."""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from ...coordination.group_directory import GroupTrace
from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.response_generators import ResponseGenerator
from ..groups.group import Group, GroupState
from ..groups.subscription import CONSUMER, assignment, subscription
from .broker import Broker, required
from .group_id import MOST_NAMED, refusal
from .request import Request

KEY = 15

DEAD = "Dead"
PAPER_PROTOCOL = "zookeeper"
"""The protocol name that is shown for consumers that coordinate through ZooKeeper."""
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8
"""READ, DELETE, DESCRIBE: there is no authorizer, so every client may do everything."""
NOT_ASKED = -(1 << 31)


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return a description of each group, once ZooKeeper has answered for those without members here."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    operations = ALL_OPERATIONS if getattr(decoded, "include_authorized_operations", False) else NOT_ASKED
    names = list(dict.fromkeys(str(name) for name in required(decoded.groups)))
    known: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(names):
        yield
        error = refusal(broker, name) if number < MOST_NAMED else ErrorCode.INVALID_REQUEST
        group = broker.groups.get(name)
        if error is not ErrorCode.NONE:
            known[name] = _described(name, DEAD, error=error)
        elif group is not None and group.members:
            known[name] = _group(group)
    unknown = [name for name in names if name not in known]

    def answer(describe: Callable[[str], dict[str, Any]]) -> Generator[None, None, bytes]:
        groups = ({**(known.get(name) or describe(name)), "authorized_operations": operations} for name in names)
        return control.encode_in_steps(KEY, version, {"throttle_time_ms": 0, "groups": groups})

    def unavailable(name: str) -> dict[str, Any]:
        return _described(name, "", error=ErrorCode.COORDINATOR_NOT_AVAILABLE)

    if not unknown:
        return (yield from answer(unavailable))
    deferred = DeferredResponse()

    def done(traces: Mapping[str, GroupTrace]) -> None:
        described = answer(lambda name: _trace(name, traces[name], is_expected=broker.groups.get(name) is not None))
        broker.generators.complete(deferred, described)

    def failed(error: Exception) -> None:
        broker.generators.complete(deferred, answer(unavailable))

    if not broker.stored_groups.describe(unknown, done, failed):
        return (yield from answer(unavailable))
    return deferred


def _described(
    name: str,
    state: str,
    *,
    error: ErrorCode = ErrorCode.NONE,
    protocol_type: str = "",
    protocol: str = "",
    members: Iterable[dict[str, Any]] = (),
) -> dict[str, Any]:
    return {
        "error_code": error,
        "group_id": name,
        "group_state": state,
        "protocol_type": protocol_type,
        "protocol_data": protocol,
        "members": list(members),
    }


def _group(group: Group) -> dict[str, Any]:
    is_stable = group.state is GroupState.STABLE  # before, there is no protocol, and the assignments are the last generation's
    members = [
        {
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "member_metadata": member.metadata(group.protocol) if is_stable else b"",
            "member_assignment": member.assignment,
        }
        for member in group.members.values()
    ]
    protocol = group.protocol or "" if is_stable else ""
    return _described(group.group_id, group.state, protocol_type=group.protocol_type or "", protocol=protocol, members=members)


def _trace(name: str, trace: GroupTrace, *, is_expected: bool) -> dict[str, Any]:
    if not trace.exists:
        return _described(name, GroupState.EMPTY if is_expected else DEAD)
    if not trace.members:
        return _described(name, GroupState.EMPTY, protocol_type=CONSUMER)
    members = [
        {
            "member_id": consumer_id,
            "group_instance_id": None,
            "client_id": consumer_id,
            "client_host": "",
            "member_metadata": subscription(member.topics),
            "member_assignment": assignment(member.partitions),
        }
        for consumer_id, member in sorted(trace.members.items())
    ]
    return _described(name, GroupState.STABLE, protocol_type=CONSUMER, protocol=PAPER_PROTOCOL, members=members)
