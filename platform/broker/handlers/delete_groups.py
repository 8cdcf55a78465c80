"""DeleteGroups, key 42, versions 0-2: deletes a group and its offsets. A group that has members, of either kind, is not
deleted."""

from collections.abc import Generator, Mapping

from ...coordination.group_directory import Deletion
from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.response_generators import ResponseGenerator
from .broker import Broker, required
from .group_id import MOST_NAMED, refusal
from .request import Request

KEY = 42

_CODES = {
    Deletion.DONE: ErrorCode.NONE,
    Deletion.ABSENT: ErrorCode.GROUP_ID_NOT_FOUND,
    Deletion.HAS_MEMBERS: ErrorCode.NON_EMPTY_GROUP,
}


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each group, once ZooKeeper has deleted it."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    errors: dict[str, ErrorCode] = {}
    wanted: list[str] = []
    for number, name in enumerate(dict.fromkeys(str(name) for name in required(decoded.groups_names))):
        yield
        errors[name] = refusal(broker, name) if number < MOST_NAMED else ErrorCode.INVALID_REQUEST
        if errors[name] is ErrorCode.NONE:
            wanted.append(name)
    if not wanted:
        return (yield from _answer(version, errors))
    deferred = DeferredResponse()

    def done(outcomes: Mapping[str, Deletion | Exception]) -> None:
        for name, outcome in outcomes.items():
            errors[name] = _CODES[outcome] if isinstance(outcome, Deletion) else ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.generators.complete(deferred, _answer(version, errors))

    def failed(error: Exception) -> None:
        done(dict.fromkeys(wanted, error))

    def has_members(name: str) -> bool:
        group = broker.groups.get(name)
        return group is not None and bool(group.members)

    if not broker.stored_groups.delete(wanted, has_members, done, failed):
        return (yield from _answer(version, errors | dict.fromkeys(wanted, ErrorCode.COORDINATOR_NOT_AVAILABLE)))
    return deferred


def _answer(version: int, errors: Mapping[str, ErrorCode]) -> Generator[None, None, bytes]:
    results = ({"group_id": name, "error_code": error} for name, error in errors.items())
    return control.encode_in_steps(KEY, version, {"throttle_time_ms": 0, "results": results})
