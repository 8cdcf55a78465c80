"""Every API but Produce and Fetch, through kio's generated message classes; and plain mappings turned into them.

kio names: module `kio.schema.<api>.v<version>.request|response`, fields in snake case, durations as `timedelta` without `_ms`,
error codes as an enum. Callers need none of that to write: they give mappings with Kafka's own names, and numbers. Holds no
table of what a server supports: that is the broker's.
"""

import io
import sys
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

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
from .message_types import Side, known_fields, message_type, names_in_any_version
from .message_writer import Layout, layout_of, write_in_steps
from .primitives import Body
from .steps import at_once

Fields = Mapping[str, Any]

MOST_ELEMENTS = 50_000
"""Of all arrays of one request together. Ten thousand partitions, each a topic of its own, are 20,000."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def encode_request(api_key: int, version: int, message: Any) -> bytes:
    """Return the request's body from kio's dataclass or a mapping (see `make`). Raises `UnsupportedVersion`, `MalformedFrame`."""
    return _encode("request", api_key, version, message)


def encode_response(api_key: int, version: int, message: Any) -> bytes:
    """Return the response's body from kio's dataclass or a mapping (see `make`); `AnswerBytes` where a mapping holds errors.

    Raises as `encode_request` does.
    """
    if not isinstance(message, Mapping):
        return _encode("response", api_key, version, message)
    return at_once(encode_in_steps(api_key, version, message))


def encode_in_steps(api_key: int, version: int, message: Fields) -> Generator[None, None, bytes]:
    """Return what `encode_response` does, with a pause after each element of an array. Arrays may be iterables of any kind: what
    makes an element runs between two pauses. Raises as `encode_request` does, when it is gone through.
    """
    layout = old_versions.LAYOUTS.get((api_key, version)) or _layout("response", api_key, version)
    errors: list[int] = []
    body = yield from write_in_steps(layout, message, errors)
    return AnswerBytes.holding(body, errors)


def make(side: Side, api_key: int, version: int, message: Fields) -> Any:
    """Return kio's dataclass made from a mapping with Kafka's field names in snake case; nested lists of mappings too.

    Fields that other versions have and this one has not are dropped, so one mapping serves all versions; names that no version
    has are refused, and so are missing ones without a default. Durations are given as `…_ms`, error codes as numbers, instants
    in ms.
    """
    return _make(message_type(side, api_key, version), message)


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


def _encode(side: Side, api_key: int, version: int, message: Any) -> bytes:
    if isinstance(message, Mapping):
        return at_once(write_in_steps(_layout(side, api_key, version), message, []))
    if not isinstance(message, message_type(side, api_key, version)):
        raise MalformedFrame(f"{type(message).__module__} is no {side} of API {api_key} version {version}")
    out = io.BytesIO()
    try:
        entity_writer(type(message))(out, message)
    except Exception as error:
        raise MalformedFrame(f"cannot write a {type(message).__name__} v{version}: {error!r}") from error
    return out.getvalue()


def _make(entity_type: Any, message: Fields) -> Any:
    known = known_fields(entity_type)
    values = {}
    for name, value in message.items():
        found = known.get(name)
        if found is None:
            if name not in names_in_any_version(entity_type.__api_key__):
                raise MalformedFrame(f"{entity_type.__name__} has no field {name!r} in any version")
            continue
        own_name, kind, inner = found
        values[own_name] = _value(kind, inner, value)
    try:
        return entity_type(**values)
    except TypeError as error:
        raise MalformedFrame(f"cannot make a {entity_type.__name__} v{entity_type.__version__}: {error}") from error


def _value(kind: str, inner: type[Any] | None, value: Any) -> Any:
    if inner is not None and isinstance(value, Mapping):
        return _make(inner, value)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | memoryview):
        return tuple(_value(kind, inner, one) for one in value)
    if value is None:
        return None
    match kind:
        case "error_code":
            return KioErrorCode(int(value))
        case "timedelta_i32" | "timedelta_i64" if not isinstance(value, timedelta):
            return timedelta(milliseconds=value)
        case "datetime_i64" if not isinstance(value, datetime):
            # Kafka's 'no time' is -1, kio's is None.
            return None if value == -1 else _EPOCH + timedelta(milliseconds=value)
    return value


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
    "make",
    "message_type",
    "milliseconds",
    "read_request_header",
    "read_response_header",
    "write_request_header",
    "write_response_header",
]
