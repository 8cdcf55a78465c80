"""The messages of every API but Produce and Fetch: read into kio's generated classes, written from mappings (`message_writer`).

Messages that are read have kio's names: fields in snake case, durations as `timedelta` without `_ms`, error codes as an enum.
Holds no table of served versions: the broker has it.
"""

import sys
from collections.abc import Collection, Generator, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from typing import Any

from kio.serial import entity_reader

from ..errors import ErrorCode, MalformedFrame
from ..generators import run_to_end
from ..primitives import Body
from . import old_versions
from .answer_bytes import AnswerBytes
from .array_bounds import check_in_steps
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

Fields = Mapping[str, Any]

BYTE_OFFSETS = "headrace.byte_offsets"
"""The feature of a broker whose offsets are positions in bytes (decision 1). It is announced in ApiVersions from version 3 on."""

MOST_ELEMENTS = 50_000
"""Elements of all arrays of one request together. Ten thousand partitions, each in its own topic, are 20,000."""


class DecodedBody(bytes):
    """Takes the place of a request's body that was decoded before: `message` is what decoding returns."""

    message: Any

    @classmethod
    def of(cls, message: Any) -> "DecodedBody":
        body = cls()
        body.message = message
        return body


def decode_request(api_key: int, version: int, body: Body) -> Any:
    """Return the request as kio's dataclass; bytes behind it are ignored. Raises `UnsupportedVersion`, `MalformedFrame`.

    A version that kio no longer has is returned as the next version, see `old_versions`.
    """
    return run_to_end(decode_in_steps(api_key, version, body))


def decode_in_steps(api_key: int, version: int, body: Body) -> Generator[None, None, Any]:
    """Decode as `decode_request` does, and yield at each element of an array. `body` is copied before the first pause.

    A `DecodedBody` is not decoded again.
    """
    if type(body) is DecodedBody:
        return body.message
    old = old_versions.TABLE.get((api_key, version))
    if old is not None:
        request = yield from _decode("request", api_key, old.read_as, bytes(body) + old.missing)
        return replace(request, **old.settled)
    return (yield from _decode("request", api_key, version, body))


def decode_response(api_key: int, version: int, body: Body) -> Any:
    """Return the response as kio's dataclass. Raises as `decode_request` does."""
    return run_to_end(_decode("response", api_key, version, body))


def encode_request(api_key: int, version: int, message: Fields) -> bytes:
    """Return the request's body. Raises `UnsupportedVersion`, `MalformedFrame`.

    `message` has Kafka's field names in snake case, numbers for durations and instants (`…_ms`) and for error codes. Fields that
    other versions have and this one has not are dropped, so one mapping serves all versions; names that no version has are
    refused, and so are missing ones without a default.
    """
    return run_to_end(write_in_steps(_layout("request", api_key, version), message, []))


def encode_response(api_key: int, version: int, message: Fields) -> bytes:
    """Return the response's body, of a mapping as for `encode_request`; as `AnswerBytes` when it holds errors."""
    return run_to_end(encode_in_steps(api_key, version, message))


def encode_in_steps(api_key: int, version: int, message: Fields) -> Generator[None, None, bytes]:
    """Encode as `encode_response` does, and yield after each element of an array. Arrays may be any iterables: each element is
    made between two pauses. Raises as `encode_request` does, while the generator runs.
    """
    old = (api_key, version)
    layout = old_versions.LAYOUTS.get(old) or _layout("response", api_key, old_versions.ANSWERED_AS.get(old, version))
    errors: list[int] = []
    body = yield from write_in_steps(layout, message, errors)
    return AnswerBytes.holding(body, errors)


def prepare(api_key: int, version: int) -> None:
    """Import and make what writes the request and reads its answer; else that is done at their first use."""
    _layout("request", api_key, version)
    entity_reader(message_type("response", api_key, version))


def fields_of(message: Any) -> dict[str, Any]:
    """Return a decoded message as a mapping that `encode_request` and `encode_response` take."""
    mapping: dict[str, Any] = {}
    for field in fields(message):
        value = getattr(message, field.name)
        if isinstance(value, tuple):
            value = [fields_of(one) if is_dataclass(one) else one for one in value]
        elif isinstance(value, timedelta):
            mapping[f"{field.name}_ms"] = milliseconds(value)
            continue
        elif is_dataclass(value):
            value = fields_of(value)
        mapping[field.name] = value
    return mapping


def milliseconds(duration: timedelta) -> int:
    """Return the number of ms on the wire: kio reads it into a `timedelta`."""
    return round(duration / timedelta(milliseconds=1))


def encode_api_versions(version: int, ranges: Mapping[int, tuple[int, int]], features: Collection[str] = ()) -> bytes:
    """Return the body of the answer to ApiVersions: `ranges` maps an API key to its lowest and highest served version. `features`
    are announced in their version 1, where the version of the answer has a place for them.

    For a version of ApiVersions outside its own range the body is v0 with error 35. From it the client learns which version to
    use.
    """
    lowest, highest = ranges[API_VERSIONS_KEY]
    is_served = lowest <= version <= highest
    message = {
        "error_code": ErrorCode.NONE if is_served else ErrorCode.UNSUPPORTED_VERSION,
        "api_keys": [{"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in sorted(ranges.items())],
        "throttle_time_ms": 0,
        "supported_features": [{"name": name, "min_version": 1, "max_version": 1} for name in features],
    }
    return encode_response(API_VERSIONS_KEY, version if is_served else 0, message)


def decode_api_versions(version: int, body: Body) -> tuple[int, dict[int, tuple[int, int]]]:
    """Return the error code and the served range of each API. An answer with error 35 is read as v0, as servers write it."""
    data = bytes(body)
    refused = data[:2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
    message = decode_response(API_VERSIONS_KEY, 0 if refused else version, data)
    return int(message.error_code), {int(one.api_key): (one.min_version, one.max_version) for one in message.api_keys}


def features_of(version: int, body: Body) -> set[str]:
    """Return the names of the features that an answer to ApiVersions announces; none before version 3. Raises as
    `decode_response` does.
    """
    return {one.name for one in getattr(decode_response(API_VERSIONS_KEY, version, body), "supported_features", ())}


def _decode(side: Side, api_key: int, version: int, body: Body) -> Generator[None, None, Any]:
    entity_type: Any = message_type(side, api_key, version)
    data = bytes(body)
    yield from check_in_steps(entity_type, data, most_elements=MOST_ELEMENTS if side == "request" else sys.maxsize)
    try:
        return entity_reader(entity_type)(data, 0)[0]
    except Exception as error:
        # kio raises errors of its own and builtin ones. None of them may leave this room.
        raise MalformedFrame(f"cannot read a {entity_type.__name__} v{version} of {len(data)} bytes: {error!r}") from error


def _layout(side: Side, api_key: int, version: int) -> Layout:
    entity_type: Any = message_type(side, api_key, version)
    return layout_of(entity_type)


__all__ = [
    "API_VERSIONS_KEY",
    "BYTE_OFFSETS",
    "DecodedBody",
    "RequestHeader",
    "decode_api_versions",
    "decode_in_steps",
    "decode_request",
    "decode_response",
    "encode_api_versions",
    "encode_in_steps",
    "encode_request",
    "encode_response",
    "features_of",
    "is_flexible",
    "message_type",
    "milliseconds",
    "prepare",
    "read_request_header",
    "read_response_header",
    "write_request_header",
    "write_response_header",
]
