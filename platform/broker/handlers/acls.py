"""DescribeAcls, key 29, versions 1-3, CreateAcls, key 30, versions 1-3, DeleteAcls, key 31, versions 1-3: there is no authorizer.

All are answered SECURITY_DISABLED, as Apache Kafka does without one: so an admin tool says so, where a closed connection would
have it try again for ever without a word."""

from collections.abc import Sequence
from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from ..slices import Steps
from .context import Context, required

DESCRIBE_KEY, CREATE_KEY, DELETE_KEY = 29, 30, 31

WHY = "no authorizer is configured: everybody may do everything here"
_REFUSED = {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": WHY}


def describe(context: Context, version: int, body: memoryview, peer: str) -> bytes:
    """Return the refusal."""
    control.decode_request(DESCRIBE_KEY, version, body)
    return control.encode_response(DESCRIBE_KEY, version, {"throttle_time_ms": 0, **_REFUSED, "resources": ()})


def create(context: Context, version: int, body: memoryview, peer: str) -> Steps:
    """Return a refusal for each that was to be made."""
    request = yield from control.decode_in_steps(CREATE_KEY, version, body)
    return (yield from _each(CREATE_KEY, version, "results", required(request.creations), _REFUSED))


def delete(context: Context, version: int, body: memoryview, peer: str) -> Steps:
    """Return a refusal for each filter."""
    request = yield from control.decode_in_steps(DELETE_KEY, version, body)
    return (yield from _each(DELETE_KEY, version, "filter_results", required(request.filters), {**_REFUSED, "matching_acls": ()}))


def _each(key: int, version: int, name: str, asked: Sequence[Any], result: dict[str, Any]) -> Steps:
    return (yield from control.encode_in_steps(key, version, {"throttle_time_ms": 0, name: (result for _ in asked)}))
