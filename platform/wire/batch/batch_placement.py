"""Placing a batch in a byte-addressed log: the twelve header bytes that a broker sets. None of them is under the CRC.

A batch that begins at byte position P takes `advance = max(bytes, records)` offsets, and its base offset is
`P + advance - records`. So the last record's offset is one less than the position of the next batch, and a client that computes
last offset + 1 lands there. Opens no batch. Source: decision 1.
"""

import struct

from ..errors import CorruptBatch
from .batch_header import HEADER_SIZE, LENGTH_PREFIX_SIZE, advance_of

_LENGTH = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_COUNT = struct.Struct(">i")

_EPOCH_AT = 12
_COUNT_AT = 57


def place(batch: bytearray | memoryview, position: int, leader_epoch: int = 0) -> int:
    """Put `batch` at byte `position` of a log and return its advance: base offset and leader epoch are set, nothing else.

    `batch` is writable and begins with exactly one batch, checked before. Hot: once per appended batch. Raises `CorruptBatch`
    when `batch` is shorter than it says.
    """
    if len(batch) < HEADER_SIZE:
        raise CorruptBatch(f"a batch of {len(batch)} bytes has no whole header of {HEADER_SIZE}")
    size_bytes: int = _LENGTH.unpack_from(batch, 8)[0] + LENGTH_PREFIX_SIZE
    if len(batch) < size_bytes or size_bytes < HEADER_SIZE:
        raise CorruptBatch(f"a batch that says {size_bytes} bytes and has {len(batch)} cannot be placed")
    count: int = _COUNT.unpack_from(batch, _COUNT_AT)[0]
    advance = advance_of(size_bytes, count)
    _OFFSET.pack_into(batch, 0, position + advance - count)
    _EPOCH.pack_into(batch, _EPOCH_AT, leader_epoch)
    return advance
