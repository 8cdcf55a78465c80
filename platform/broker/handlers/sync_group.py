"""SyncGroup, key 14, versions 0-5: the leader brings everybody's share, the others ask for theirs. Answered when it is there."""

from ...wire import control
from ...wire.errors import ErrorCode
from ..groups.messages import SyncAnswer, SyncRequest
from ..slices import Steps
from .context import Context, required
from .group_id import refusal

KEY = 14

NAMES_PROTOCOL_FROM = 5
"""From here on a client that does not say which protocol it knows the group by is refused."""


def handle(context: Context, version: int, body: memoryview, peer: str) -> Steps:
    """Return the member's share."""
    request = yield from control.decode_in_steps(KEY, version, body)
    group_id = str(request.group_id)
    error = refusal(context, group_id)
    if error is ErrorCode.NONE and version >= NAMES_PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if error is not ErrorCode.NONE:
        return _encode(version, SyncAnswer(error=error))
    sync = SyncRequest(
        group_id=group_id,
        generation=int(request.generation_id),
        member_id=str(request.member_id),
        instance_id=getattr(request, "group_instance_id", None),
        protocol_type=getattr(request, "protocol_type", None),
        protocol=getattr(request, "protocol_name", None),
        shares=[(str(one.member_id), bytes(one.assignment)) for one in required(request.assignments)],
    )
    return context.groups.sync(sync, lambda answer: _encode(version, answer))


def _encode(version: int, answer: SyncAnswer) -> bytes:
    message = {
        "throttle_time_ms": 0,
        "error_code": answer.error,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol,
        "assignment": answer.assignment,
    }
    return control.encode_response(KEY, version, message)
