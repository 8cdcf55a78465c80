"""Giving a batch its place in a byte-addressed log: the twenty header bytes that a broker may set, and nothing else.

Source: `facts/byte_offsets_on_the_kafka_wire.md`: a batch's offset is its byte position, and it covers `advance_of` offsets.
Opens no batch.
"""

import struct

from .batch_header import CRC_COVERS_FROM, HEADER_SIZE, LENGTH_PREFIX_SIZE, Buffer, read_header
from .crc32c import crc32c, patched
from .errors import CorruptBatch

_LENGTH = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC_ATTRIBUTES_DELTA = struct.Struct(">IHI")
_CRC = struct.Struct(">I")
_DELTA = struct.Struct(">I")
_COUNT = struct.Struct(">i")

_EPOCH_AT = 12
_CRC_AT = 17
_DELTA_AT = 23
_AFTER_DELTA = 27
_COUNT_AT = 57


def advance_of(size_bytes: int, record_count: int) -> int:
    """Return how many offsets a batch takes: its bytes, or its records where compression made those more."""
    return size_bytes if size_bytes > record_count else record_count


def place(batch: bytearray | memoryview, base_offset: int, leader_epoch: int = 0) -> int:
    """Put `batch` at `base_offset` and return its advance: base offset, leader epoch, last offset delta = advance - 1, CRC.

    `batch` is writable and begins with exactly one batch, checked before. The CRC is patched, never recomputed: a byte that went
    wrong in memory since the check still shows. Hot: once per appended batch. Raises `CorruptBatch` when `batch` is shorter than
    it says.
    """
    if len(batch) < HEADER_SIZE:
        raise CorruptBatch(f"a batch of {len(batch)} bytes has no whole header of {HEADER_SIZE}")
    size_bytes: int = _LENGTH.unpack_from(batch, 8)[0] + LENGTH_PREFIX_SIZE
    if len(batch) < size_bytes or size_bytes < HEADER_SIZE:
        raise CorruptBatch(f"a batch that says {size_bytes} bytes and has {len(batch)} cannot be placed")
    count: int = _COUNT.unpack_from(batch, _COUNT_AT)[0]
    advance = size_bytes if size_bytes > count else count
    _OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, _EPOCH_AT, leader_epoch)
    _set_last_offset_delta(batch, advance - 1, size_bytes)
    return advance


def with_dense_last_offset_delta(batch: Buffer) -> bytes:
    """Return a copy with last offset delta = record count - 1, CRC patched: what a real Kafka accepts from a producer."""
    header = read_header(batch)
    if len(batch) < header.size_bytes or header.record_count < 1:
        raise CorruptBatch(
            f"the batch at offset {header.base_offset} is cut or empty: {len(batch)} of {header.size_bytes} bytes, "
            f"{header.record_count} records",
            base_offset=header.base_offset,
        )
    copy = bytearray(memoryview(batch)[: header.size_bytes])
    _set_last_offset_delta(copy, header.record_count - 1, header.size_bytes)
    return bytes(copy)


def _set_last_offset_delta(batch: bytearray | memoryview, delta: int, size_bytes: int) -> None:
    crc, attributes, before = _CRC_ATTRIBUTES_DELTA.unpack_from(batch, _CRC_AT)
    if before != delta:
        _CRC_ATTRIBUTES_DELTA.pack_into(
            batch, _CRC_AT, patched(crc, before ^ delta, size_bytes - _AFTER_DELTA), attributes, delta
        )


def recomputed_crc(batch: Buffer) -> int:
    """Return the CRC that the whole of `batch` ought to carry: the slow truth that the patch is held against."""
    return crc32c(memoryview(batch)[CRC_COVERS_FROM:])
