"""The front of every request frame. Pure. Source: Kafka's RequestHeader.json, versions 1 and 2.

size int32 | api key int16 | api version int16 | correlation id int32 | client id: int16 length, bytes | (v2) tagged
fields | body
"""

import struct

from ...wire.errors import MalformedFrame
from ...wire.primitives import skip_tags

FRONT = struct.Struct(">ihhih")
"""size, api key, api version, correlation id, length of the client id."""
FRONT_SIZE = FRONT.size
SMALLEST_FRAME = FRONT_SIZE - 4
"""A frame's size does not count itself."""


def body_start(frame: memoryview, client_id_length: int, *, flexible: bool) -> int:
    """Return where the body begins in `frame` (its size field included).

    Raises: MalformedFrame when the header runs past the frame's end.
    """
    at = FRONT_SIZE + client_id_length if client_id_length > 0 else FRONT_SIZE
    if at > len(frame):
        raise MalformedFrame(f"a client id of {client_id_length} bytes in a frame of {len(frame)}")
    if flexible:
        if at == len(frame):
            raise MalformedFrame("a frame that ends before its header's tagged fields")
        try:
            at = skip_tags(frame, at)
        except IndexError:
            raise MalformedFrame(f"tagged fields at byte {at} of a header that are cut") from None
        if at > len(frame):
            raise MalformedFrame("tagged fields that run past the frame's end")
    return at


def client_id(frame: memoryview, length: int) -> str:
    """Return what the client calls itself, empty when it does not say; `body_start` has checked the length."""
    return str(frame[FRONT_SIZE : FRONT_SIZE + length], "utf-8", "replace") if length > 0 else ""


def frame_bytes(buffer: memoryview, start: int, end: int) -> int | None:
    """Return the length of the frame that begins at `start`, its size field included; None while that field is cut."""
    if end - start < 4:
        return None
    return 4 + int.from_bytes(buffer[start : start + 4], "big")
