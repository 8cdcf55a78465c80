"""LeaveGroup, key 13, versions 0-5 (3 and later: several members at once, static ones by instance): removes members from a
group."""

from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..groups.messages import Leaver
from .broker import Broker, required
from .group_id import refusal
from .request import Request

KEY = 13


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each member."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    group_id = str(decoded.group_id)
    error = refusal(broker, group_id)
    message: dict[str, Any] = {"throttle_time_ms": 0, "error_code": error, "members": []}
    if error is not ErrorCode.NONE:
        return control.encode_response(KEY, version, message)  # members are none
    if version < 3:
        (message["error_code"],) = broker.groups.leave(group_id, [Leaver(str(decoded.member_id))])
    else:
        leavers = [Leaver(str(one.member_id), one.group_instance_id) for one in required(decoded.members)]
        message["members"] = (
            {"member_id": one.member_id, "group_instance_id": one.instance_id, "error_code": error}
            for one, error in zip(leavers, broker.groups.leave(group_id, leavers), strict=True)
        )
    return (yield from control.encode_in_steps(KEY, version, message))
