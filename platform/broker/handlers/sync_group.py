"""SyncGroup, key 14, versions 0-5: the leader sends the assignments of all members, the others ask for theirs. The response comes
when the member's assignment is known."""

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..groups.messages import SyncAnswer, SyncRequest
from .broker import Broker, required
from .group_id import refusal
from .request import Request

KEY = 14

NAMES_PROTOCOL_FROM = 5
"""From this version on a client has to name the group's protocol."""


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the member's assignment."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    group_id = str(decoded.group_id)
    error = refusal(broker, group_id)
    if error is ErrorCode.NONE and version >= NAMES_PROTOCOL_FROM and None in (decoded.protocol_type, decoded.protocol_name):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if error is not ErrorCode.NONE:
        return _encode(version, SyncAnswer(error=error))
    sync = SyncRequest(
        group_id=group_id,
        generation=int(decoded.generation_id),
        member_id=str(decoded.member_id),
        instance_id=getattr(decoded, "group_instance_id", None),
        protocol_type=getattr(decoded, "protocol_type", None),
        protocol=getattr(decoded, "protocol_name", None),
        assignments=[(str(one.member_id), bytes(one.assignment)) for one in required(decoded.assignments)],
    )
    return broker.groups.sync(sync, lambda answer: _encode(version, answer))


def _encode(version: int, answer: SyncAnswer) -> bytes:
    message = {
        "throttle_time_ms": 0,
        "error_code": answer.error,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol,
        "assignment": answer.assignment,
    }
    return control.encode_response(KEY, version, message)
