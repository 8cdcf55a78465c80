"""Heartbeat, key 12, versions 0-4: says that a member lives. The response says whether it has to join again."""

from ...wire.errors import ErrorCode
from ...wire.messages import control
from .broker import Broker
from .group_id import refusal
from .request import Request

KEY = 12


def handle(broker: Broker, request: Request) -> bytes:
    """Return the error code that says what the member does next."""
    decoded = control.decode_request(KEY, request.version, request.body)
    group_id = str(decoded.group_id)
    error = refusal(broker, group_id)
    if error is ErrorCode.NONE:
        instance_id = getattr(decoded, "group_instance_id", None)
        error = broker.groups.heartbeat(group_id, int(decoded.generation_id), str(decoded.member_id), instance_id)
    return control.encode_response(KEY, request.version, {"throttle_time_ms": 0, "error_code": error})
