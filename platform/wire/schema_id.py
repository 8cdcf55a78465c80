"""The envelope around each payload: `0x00 · schema id (4 bytes, big-endian) · body`. Source: Confluent's wire format.

Knows nothing of schemas or Avro.
"""

import struct

from .errors import NotFramed, WireError

MAGIC = 0
SIZE = 5

_ENVELOPE = struct.Struct(">bI")


def frame(schema_id: int, body: bytes) -> bytes:
    """Return `body` behind its envelope. Raises `WireError` for an id outside 0 .. 2**31 - 1."""
    if not 0 <= schema_id < 1 << 31:
        raise WireError(f"schema id {schema_id} does not fit the envelope: ids are 0 to 2147483647")
    return _ENVELOPE.pack(MAGIC, schema_id) + body


def unframe(payload: bytes | bytearray | memoryview) -> tuple[int, memoryview]:
    """Return the schema id and the body (a view into `payload`, no copy). Raises `NotFramed`."""
    if len(payload) < SIZE:
        raise NotFramed(
            f"a payload of {len(payload)} bytes has no room for the schema id: it was not written by a framed producer"
        )
    magic, schema_id = _ENVELOPE.unpack_from(payload)
    if magic != MAGIC:
        raise NotFramed(f"the payload begins with 0x{magic & 0xFF:02x}, not 0x00: it was not written by a framed producer")
    if schema_id >> 31:
        raise NotFramed(f"the payload's schema id {schema_id} is above 2147483647: it was not written by a framed producer")
    return schema_id, memoryview(payload)[SIZE:]
