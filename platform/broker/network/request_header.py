"""The header of every request frame. Pure. Source: Kafka's RequestHeader.json, versions 1 and 2.

size int32 | api key int16 | api version int16 | correlation id int32 | client id: int16 length, bytes
           | (v2) tagged fields | body
"""

import struct

from ...wire.errors import MalformedFrame
from ...wire.primitives import skip_tags

FIXED_HEADER = struct.Struct(">ihhih")
"""size, api key, api version, correlation id, length of the client id."""
FIXED_HEADER_SIZE = FIXED_HEADER.size
SMALLEST_FRAME = FIXED_HEADER_SIZE - 4
"""A frame's size does not count itself."""


def body_start(frame: memoryview, client_id_length: int, *, flexible: bool) -> int:
    """Return where the body begins in `frame` (its size field included).

    Raises: MalformedFrame when the header runs past the frame's end.
    """
    at = FIXED_HEADER_SIZE + client_id_length if client_id_length > 0 else FIXED_HEADER_SIZE
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
    """Return the client's id, empty when it gives none. `body_start` has checked the length."""
    return str(frame[FIXED_HEADER_SIZE : FIXED_HEADER_SIZE + length], "utf-8", "replace") if length > 0 else ""


def frame_bytes(buffer: memoryview, start: int, end: int) -> int | None:
    """Return the length of the frame that begins at `start`, with its size field; None while that field is incomplete."""
    if end - start < 4:
        return None
    return 4 + int.from_bytes(buffer[start : start + 4], "big")
