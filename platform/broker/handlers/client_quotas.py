"""DescribeClientQuotas, key 48, versions 0-1, AlterClientQuotas, key 49, versions 0-1: there are no quotas.

The list is empty, and each change is refused."""

from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from .broker import Broker, required
from .request import Request

DESCRIBE_KEY, ALTER_KEY = 48, 49

WHY = "this broker has no quotas: it slows down no client"


def describe(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the empty list."""
    yield from control.decode_in_steps(DESCRIBE_KEY, request.version, request.body)
    message = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": None, "entries": ()}
    return (yield from control.encode_in_steps(DESCRIBE_KEY, request.version, message))


def alter(broker: Broker, request: Request) -> ResponseGenerator:
    """Return a refusal for each entry of the request."""
    decoded = yield from control.decode_in_steps(ALTER_KEY, request.version, request.body)
    message = {"throttle_time_ms": 0, "entries": (_refused(entry) for entry in required(decoded.entries))}
    return (yield from control.encode_in_steps(ALTER_KEY, request.version, message))


def _refused(entry: Any) -> dict[str, Any]:
    entity = ({"entity_type": one.entity_type, "entity_name": one.entity_name} for one in required(entry.entity))
    return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "error_message": WHY, "entity": entity}
