"""ListGroups, key 16, versions 0-4 (4 filters by state): the groups that this broker coordinates.

Groups with members are in memory. Groups that only have offsets, and groups of consumers that coordinate through ZooKeeper, are
in ZooKeeper."""

from collections.abc import Generator, Mapping

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.response_generators import ResponseGenerator
from ..groups.group import GroupState
from ..groups.subscription import CONSUMER
from .broker import Broker, required
from .request import Request

KEY = 16


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return id, kind and state of each group, once ZooKeeper has answered."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    wanted = {str(state).lower() for state in required(getattr(decoded, "states_filter", ()))}
    deferred = DeferredResponse()

    def answer(error: ErrorCode, traces: Mapping[str, bool]) -> Generator[None, None, bytes]:
        groups: dict[str, tuple[str, str]] = {}
        for name, lives in traces.items():
            if broker.groups.is_ours(name):
                groups[name] = (CONSUMER, GroupState.STABLE if lives else GroupState.EMPTY)
            yield
        groups |= {group.group_id: (group.protocol_type or "", group.state) for group in broker.groups.all()}
        listed = (
            {"group_id": name, "protocol_type": protocol_type, "group_state": state}
            for name, (protocol_type, state) in sorted(groups.items())
            if not wanted or state.lower() in wanted
        )
        return (yield from control.encode_in_steps(KEY, version, {"throttle_time_ms": 0, "error_code": error, "groups": listed}))

    def done(traces: Mapping[str, bool]) -> None:
        broker.generators.complete(deferred, answer(ErrorCode.NONE, traces))

    def failed(error: Exception) -> None:
        broker.generators.complete(deferred, answer(ErrorCode.COORDINATOR_NOT_AVAILABLE, {}))

    if not broker.stored_groups.groups(done, failed):
        return (yield from answer(ErrorCode.COORDINATOR_NOT_AVAILABLE, {}))
    return deferred
