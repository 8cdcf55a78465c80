"""DeleteGroups, key 42, versions 0-2: a group's offsets go for good. One with members, of whatever kind, is not deleted."""

from collections.abc import Mapping

from ...coordination.group_directory import Deletion
from ...wire import control
from ...wire.errors import ErrorCode
from ..later import Later
from .context import Context, required, respond
from .group_id import MOST_NAMED, refusal

KEY = 42

_CODES = {
    Deletion.DONE: ErrorCode.NONE,
    Deletion.ABSENT: ErrorCode.GROUP_ID_NOT_FOUND,
    Deletion.HAS_MEMBERS: ErrorCode.NON_EMPTY_GROUP,
}


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return what became of each group, once it is out of ZooKeeper."""
    request = control.decode_request(KEY, version, body)
    errors: dict[str, ErrorCode] = {}
    wanted: list[str] = []
    for number, name in enumerate(dict.fromkeys(str(name) for name in required(request.groups_names))):
        errors[name] = refusal(context, name) if number < MOST_NAMED else ErrorCode.INVALID_REQUEST
        group = context.groups.get(name)
        if errors[name] is ErrorCode.NONE and group is not None and group.members:
            errors[name] = ErrorCode.NON_EMPTY_GROUP
        if errors[name] is ErrorCode.NONE:
            wanted.append(name)
    if not wanted:
        return _answer(version, errors)
    later = Later()

    def done(outcomes: Mapping[str, Deletion | Exception]) -> None:
        for name, outcome in outcomes.items():
            errors[name] = _CODES[outcome] if isinstance(outcome, Deletion) else ErrorCode.COORDINATOR_NOT_AVAILABLE
        later.complete(respond(_answer(version, errors)))

    def failed(error: Exception) -> None:
        done(dict.fromkeys(wanted, error))

    if not context.group_traces.delete(wanted, done, failed):
        return _answer(version, errors | dict.fromkeys(wanted, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return later


def _answer(version: int, errors: Mapping[str, ErrorCode]) -> bytes:
    results = [{"group_id": name, "error_code": error} for name, error in errors.items()]
    return control.encode_response(KEY, version, {"throttle_time_ms": 0, "results": results})
