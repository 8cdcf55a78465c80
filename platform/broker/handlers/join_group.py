"""JoinGroup, key 11, versions 0-7: a client joins a group. The response comes when the group's next generation is complete.

Version 0 has no rebalance timeout: the session timeout serves for both, and a rebalance timeout below it is raised to it. From 4
on a new member first gets an id, with an error that says so. From 5 on it may be static (`group_instance_id`). Only the leader's
response has the other members."""

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..groups.coordinator import MOST_OFFERS
from ..groups.messages import JoinAnswer, JoinRequest, ProtocolOffer
from .broker import Broker, required
from .group_id import refusal
from .request import Request

KEY = 11

ID_FIRST_FROM = 4
NULLABLE_PROTOCOL_FROM = 7


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the generation that the member is in."""
    version = request.version
    client_id = request.client_id  # valid up to the first pause
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    group_id, member_id = str(decoded.group_id), str(decoded.member_id)
    error = refusal(broker, group_id)
    if error is ErrorCode.NONE and len(required(decoded.protocols)) > MOST_OFFERS:
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # before offers are made of them: tens of thousands take 50 ms
    if error is not ErrorCode.NONE:
        return _encode(version, JoinAnswer(error=error, member_id=member_id))
    session_timeout_ms = control.milliseconds(decoded.session_timeout)
    rebalance_timeout_ms = control.milliseconds(decoded.rebalance_timeout) if version >= 1 else -1
    join = JoinRequest(
        group_id=group_id,
        member_id=member_id,
        instance_id=getattr(decoded, "group_instance_id", None),
        client_id=client_id,
        client_host=request.peer.host,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=max(session_timeout_ms, rebalance_timeout_ms),
        protocol_type=str(decoded.protocol_type),
        offers=[ProtocolOffer(str(one.name), bytes(one.metadata)) for one in decoded.protocols],
        asks_for_id_first=version >= ID_FIRST_FROM,
    )
    return broker.groups.join(join, lambda answer: _encode(version, answer))


def _encode(version: int, answer: JoinAnswer) -> bytes:
    message = {
        "throttle_time_ms": 0,
        "error_code": answer.error,
        "generation_id": answer.generation,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol or (None if version >= NULLABLE_PROTOCOL_FROM else ""),
        "leader": answer.leader_id,
        "member_id": answer.member_id,
        "members": [
            {"member_id": one.member_id, "group_instance_id": one.instance_id, "metadata": one.metadata} for one in answer.members
        ],
    }
    return control.encode_response(KEY, version, message)
