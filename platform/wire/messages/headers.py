"""The headers in front of every request and response. Written by hand for speed: every request passes here.

Source: Kafka's RequestHeader.json, ResponseHeader.json.

    request    api key int16 · version int16 · correlation id int32 · client id (always the old nullable string) · [tags]
    response   correlation id int32 · [tags]

Only flexible versions have tags. A response to ApiVersions never has any: it is sent before a version is agreed on.
"""

import struct
from typing import NamedTuple

from ..errors import MalformedFrame
from ..primitives import Body, read_string, skip_tags, string

API_VERSIONS_KEY = 18

NEVER = 1 << 15
FIRST_FLEXIBLE = {
    0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 17: NEVER, 18: 3, 19: 5, 20: 4, 21: 2,
    22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 30: 2, 31: 2, 32: 4, 33: 2, 34: 2, 35: 2, 36: 2, 37: 2, 38: 2, 39: 2,
    40: 2, 41: 2, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: NEVER, 48: 1, 49: 1, 50: 0, 51: 0, 57: 0, 60: 0, 61: 0, 65: 0, 66: 0,
    68: 0, 69: 0, 71: 0, 72: 0, 74: 0, 75: 0,
}  # fmt: skip
"""The first version of each API whose messages have tagged fields and compact lengths (KIP-482)."""

_FIXED = struct.Struct(">hhi")
_CORRELATION = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The header of a request. A named tuple, because one is made for every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def is_flexible(api_key: int, version: int) -> bool:
    """Return whether the API has tagged fields in this version; False for an unknown API."""
    return version >= FIRST_FLEXIBLE.get(api_key, NEVER)


def read_request_header(frame: Body) -> tuple[RequestHeader, int]:
    """Return the header and the byte at which the body begins. `frame` is what follows the four bytes of size.

    An unknown API is read as far as every API agrees: without tags. Raises `MalformedFrame`.
    """
    view = memoryview(frame)
    try:
        api_key, version, correlation_id = _FIXED.unpack_from(view)
        client_id, at = read_string(view, 8, flexible=False)
        if is_flexible(api_key, version):
            at = skip_tags(view, at)
    except (struct.error, IndexError):
        raise MalformedFrame(f"a request of {len(view)} bytes is cut inside its header") from None
    if at > len(view):
        raise MalformedFrame(f"a request of {len(view)} bytes is cut inside its header")
    return RequestHeader(api_key, version, correlation_id, client_id), at


def write_request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the header's bytes."""
    tail = b"\x00" if is_flexible(api_key, version) else b""
    return _FIXED.pack(api_key, version, correlation_id) + string(client_id, flexible=False) + tail


def write_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Return the header of the response to a request of this API and version."""
    if api_key != API_VERSIONS_KEY and is_flexible(api_key, version):
        return _CORRELATION.pack(correlation_id) + b"\x00"
    return _CORRELATION.pack(correlation_id)


def read_response_header(api_key: int, version: int, frame: Body) -> tuple[int, int]:
    """Return the correlation id and the byte at which the body begins. Raises `MalformedFrame`."""
    view = memoryview(frame)
    try:
        correlation_id: int = _CORRELATION.unpack_from(view)[0]
        at = 4
        if api_key != API_VERSIONS_KEY and is_flexible(api_key, version):
            at = skip_tags(view, at)
    except (struct.error, IndexError):
        raise MalformedFrame(f"a response of {len(view)} bytes is cut inside its header") from None
    return correlation_id, at
