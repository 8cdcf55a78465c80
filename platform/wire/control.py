"""Every API but Produce and Fetch: read into kio's generated classes, written from plain mappings (`message_writer`).

What is read has kio's names: fields in snake case, durations as `timedelta` without `_ms`, error codes as an enum. Holds no table
of what a server supports: that is the broker's.
"""

import sys
from collections.abc import Generator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from kio.serial import entity_reader

from . import old_versions
from .answer_bytes import AnswerBytes
from .array_bounds import check_in_steps
from .errors import ErrorCode, MalformedFrame
from .headers import (
    API_VERSIONS_KEY,
    RequestHeader,
    is_flexible,
    read_request_header,
    read_response_header,
    write_request_header,
    write_response_header,
)
from .message_types import Side, message_type
from .message_writer import Layout, layout_of, write_in_steps
from .primitives import Body
from .steps import at_once

Fields = Mapping[str, Any]

MOST_ELEMENTS = 50_000
"""Of all arrays of one request together. Ten thousand partitions, each a topic of its own, are 20,000."""


def decode_request(api_key: int, version: int, body: Body) -> Any:
    """Return the request as kio's dataclass; bytes behind it are ignored. Raises `UnsupportedVersion`, `MalformedFrame`.

    A version that kio no longer has comes as the next one up, see `old_versions`.
    """
    return at_once(decode_in_steps(api_key, version, body))


def decode_in_steps(api_key: int, version: int, body: Body) -> Generator[None, None, Any]:
    """Return what `decode_request` does, with a pause at each element of an array. `body` is copied before the first."""
    old = old_versions.TABLE.get((api_key, version))
    if old is not None:
        request = yield from _decode("request", api_key, old.read_as, bytes(body) + old.missing)
        return replace(request, **old.settled)
    return (yield from _decode("request", api_key, version, body))


def decode_response(api_key: int, version: int, body: Body) -> Any:
    """Return the response as kio's dataclass. Raises as `decode_request` does."""
    return at_once(_decode("response", api_key, version, body))


def encode_request(api_key: int, version: int, message: Fields) -> bytes:
    """Return the request's body. Raises `UnsupportedVersion`, `MalformedFrame`.

    `message` has Kafka's field names in snake case, numbers for durations and instants (`…_ms`) and for error codes. Fields that
    other versions have and this one has not are dropped, so one mapping serves all versions; names that no version has are
    refused, and so are missing ones without a default.
    """
    return at_once(write_in_steps(_layout("request", api_key, version), message, []))


def encode_response(api_key: int, version: int, message: Fields) -> bytes:
    """Return the response's body from a mapping as `encode_request` takes it; `AnswerBytes` where it holds errors."""
    return at_once(encode_in_steps(api_key, version, message))


def encode_in_steps(api_key: int, version: int, message: Fields) -> Generator[None, None, bytes]:
    """Return what `encode_response` does, with a pause after each element of an array. Arrays may be iterables of any kind: what
    makes an element runs between two pauses. Raises as `encode_request` does, when it is gone through.
    """
    old = (api_key, version)
    layout = old_versions.LAYOUTS.get(old) or _layout("response", api_key, old_versions.ANSWERED_AS.get(old, version))
    errors: list[int] = []
    body = yield from write_in_steps(layout, message, errors)
    return AnswerBytes.holding(body, errors)


def milliseconds(duration: timedelta) -> int:
    """Return what travelled: kio reads a number of ms into a `timedelta`."""
    return round(duration / timedelta(milliseconds=1))


def encode_api_versions(version: int, ranges: Mapping[int, tuple[int, int]]) -> bytes:
    """Return the body of the answer to ApiVersions: `ranges` maps an API key to its lowest and highest served version.

    For a version of ApiVersions outside its own range it is a v0 body with error 35, whatever was asked: so the client learns
    what to ask.
    """
    lowest, highest = ranges[API_VERSIONS_KEY]
    is_served = lowest <= version <= highest
    message = {
        "error_code": ErrorCode.NONE if is_served else ErrorCode.UNSUPPORTED_VERSION,
        "api_keys": [{"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in sorted(ranges.items())],
        "throttle_time_ms": 0,
    }
    return encode_response(API_VERSIONS_KEY, version if is_served else 0, message)


def decode_api_versions(version: int, body: Body) -> tuple[int, dict[int, tuple[int, int]]]:
    """Return the error code and the served range of each API. An answer with error 35 is read as v0, as servers write it."""
    data = bytes(body)
    refused = data[:2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
    message = decode_response(API_VERSIONS_KEY, 0 if refused else version, data)
    return int(message.error_code), {int(one.api_key): (one.min_version, one.max_version) for one in message.api_keys}


def _decode(side: Side, api_key: int, version: int, body: Body) -> Generator[None, None, Any]:
    entity_type: Any = message_type(side, api_key, version)
    data = bytes(body)
    yield from check_in_steps(entity_type, data, most_elements=MOST_ELEMENTS if side == "request" else sys.maxsize)
    try:
        return entity_reader(entity_type)(data, 0)[0]
    except Exception as error:
        # kio has a tree of errors of its own, and plain ones of its primitives besides: none of them may leave this room.
        raise MalformedFrame(f"cannot read a {entity_type.__name__} v{version} of {len(data)} bytes: {error!r}") from error


def _layout(side: Side, api_key: int, version: int) -> Layout:
    entity_type: Any = message_type(side, api_key, version)
    return layout_of(entity_type)


__all__ = [
    "API_VERSIONS_KEY",
    "RequestHeader",
    "decode_api_versions",
    "decode_in_steps",
    "decode_request",
    "decode_response",
    "encode_api_versions",
    "encode_in_steps",
    "encode_request",
    "encode_response",
    "is_flexible",
    "message_type",
    "milliseconds",
    "read_request_header",
    "read_response_header",
    "write_request_header",
    "write_response_header",
]
