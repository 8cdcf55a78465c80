"""Heartbeat, key 12, versions 0-4: a member lives; it learns whether it has to join again."""

from ...wire import control
from ...wire.errors import ErrorCode
from .context import Context
from .group_id import refusal

KEY = 12


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes:
    """Return what the member is to do."""
    request = control.decode_request(KEY, version, body)
    group_id = str(request.group_id)
    error = refusal(context, group_id)
    if error is ErrorCode.NONE:
        instance_id = getattr(request, "group_instance_id", None)
        error = context.groups.heartbeat(group_id, int(request.generation_id), str(request.member_id), instance_id)
    return control.encode_response(KEY, version, {"throttle_time_ms": 0, "error_code": error})
