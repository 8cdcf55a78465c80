"""ListGroups, key 16, versions 0-4 (4 filters by state): the groups that this broker coordinates.

Groups with members are in memory; those of which offsets are left, and the paper's own consumers, are in ZooKeeper."""

from collections.abc import Mapping

from ...wire import control
from ...wire.errors import ErrorCode
from ..groups.group import GroupState
from ..groups.subscription import CONSUMER
from ..later import Later
from .context import Context, required, respond

KEY = 16


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return id, kind and state of each group, once ZooKeeper has told the rest."""
    request = control.decode_request(KEY, version, body)
    wanted = {str(state).lower() for state in required(getattr(request, "states_filter", ()))}
    later = Later()

    def answer(error: ErrorCode, traces: Mapping[str, bool]) -> bytes:
        groups = {name: (CONSUMER, GroupState.STABLE if lives else GroupState.EMPTY) for name, lives in traces.items()}
        groups = {name: shown for name, shown in groups.items() if context.groups.is_ours(name)}
        groups |= {group.group_id: (group.protocol_type or "", group.state) for group in context.groups.all()}
        listed = [
            {"group_id": name, "protocol_type": protocol_type, "group_state": state}
            for name, (protocol_type, state) in sorted(groups.items())
            if not wanted or state.lower() in wanted
        ]
        return control.encode_response(KEY, version, {"throttle_time_ms": 0, "error_code": error, "groups": listed})

    def done(traces: Mapping[str, bool]) -> None:
        later.complete(respond(answer(ErrorCode.NONE, traces)))

    def failed(error: Exception) -> None:
        later.complete(respond(answer(ErrorCode.COORDINATOR_NOT_AVAILABLE, {})))

    if not context.group_traces.groups(done, failed):
        return answer(ErrorCode.COORDINATOR_NOT_AVAILABLE, {})
    return later
