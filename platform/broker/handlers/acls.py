"""DescribeAcls, key 29, versions 1-3, CreateAcls, key 30, versions 1-3, DeleteAcls, key 31, versions 1-3: there is no authorizer.

Every request is answered SECURITY_DISABLED, as Apache Kafka does without an authorizer. Trap: after a closed connection an admin
tool would try again for ever and say nothing."""

from collections.abc import Sequence
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from .broker import Broker, required
from .request import Request

DESCRIBE_KEY, CREATE_KEY, DELETE_KEY = 29, 30, 31

WHY = "no authorizer is configured: everybody may do everything here"
_REFUSED = {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": WHY}


def describe(broker: Broker, request: Request) -> bytes:
    """Return the refusal."""
    control.decode_request(DESCRIBE_KEY, request.version, request.body)
    return control.encode_response(DESCRIBE_KEY, request.version, {"throttle_time_ms": 0, **_REFUSED, "resources": ()})


def create(broker: Broker, request: Request) -> ResponseGenerator:
    """Return a refusal for each ACL of the request."""
    decoded = yield from control.decode_in_steps(CREATE_KEY, request.version, request.body)
    return (yield from _each(CREATE_KEY, request.version, "results", required(decoded.creations), _REFUSED))


def delete(broker: Broker, request: Request) -> ResponseGenerator:
    """Return a refusal for each filter."""
    decoded = yield from control.decode_in_steps(DELETE_KEY, request.version, request.body)
    return (
        yield from _each(
            DELETE_KEY, request.version, "filter_results", required(decoded.filters), {**_REFUSED, "matching_acls": ()}
        )
    )


def _each(key: int, version: int, name: str, asked: Sequence[Any], result: dict[str, Any]) -> ResponseGenerator:
    return (yield from control.encode_in_steps(key, version, {"throttle_time_ms": 0, name: (result for _ in asked)}))
