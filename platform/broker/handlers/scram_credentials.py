"""DescribeUserScramCredentials, key 50, version 0, AlterUserScramCredentials, key 51, version 0: there are no users.

The list is empty, a user that is named is not found, and each change is refused."""

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from .broker import Broker, required
from .request import Request

DESCRIBE_KEY, ALTER_KEY = 50, 51

WHY = "this broker has no users: it has no SASL"


def describe(broker: Broker, request: Request) -> ResponseGenerator:
    """Return that each user of the request is not found; no user when it names none."""
    decoded = yield from control.decode_in_steps(DESCRIBE_KEY, request.version, request.body)
    results = (
        {"user": one.name, "error_code": ErrorCode.RESOURCE_NOT_FOUND, "error_message": WHY, "credential_infos": ()}
        for one in decoded.users or ()
    )
    message = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": None, "results": results}
    return (yield from control.encode_in_steps(DESCRIBE_KEY, request.version, message))


def alter(broker: Broker, request: Request) -> ResponseGenerator:
    """Return a refusal for each user of the request, once."""
    decoded = yield from control.decode_in_steps(ALTER_KEY, request.version, request.body)
    users = dict.fromkeys(str(one.name) for one in (*required(decoded.deletions), *required(decoded.upsertions)))
    results = ({"user": user, "error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "error_message": WHY} for user in users)
    return (yield from control.encode_in_steps(ALTER_KEY, request.version, {"throttle_time_ms": 0, "results": results}))
