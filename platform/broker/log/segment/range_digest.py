"""What replicas compare: the head of each batch in a range of offsets, computed over the bytes on disk.

The 21 bytes in front of what the CRC covers hold base offset, size, leader epoch, format and CRC. The CRC is checked here. So two
replicas with the same heads have the same bytes, and a bit that has flipped shows. Source: CRC scrubbing of storage systems.
"""

import hashlib
import os
import struct
from collections.abc import Sequence
from typing import NamedTuple

from ....wire.batch.batch_header import CRC_COVERS_FROM, HEADER_SIZE, LENGTH_PREFIX_SIZE, MAGIC, BatchHeader
from ....wire.batch.crc32c import crc32c
from .bad_range import BadRange
from .batch_walk import walk
from .file_region import OpenFile

HEAD_BYTES = CRC_COVERS_FROM
SUM_BYTES = 16
READ_AT_ONCE = 2 << 20
"""A longer range (one large batch) is read through the walk's window."""

_CHECKED = struct.Struct(">qi4xbI2xi30xi")
"""Base offset, length, magic, CRC, last offset delta, count of records."""


class BatchDigest(NamedTuple):
    """One batch that passes its own CRC. Offsets are [position, next_offset)."""

    position: int
    next_offset: int
    head: bytes
    """The first `HEAD_BYTES` bytes."""


class RangeDigest(NamedTuple):
    """Of one replica, in order."""

    batches: tuple[BatchDigest, ...]
    damaged: tuple[BadRange, ...] = ()

    @property
    def sum(self) -> bytes:
        """Return `SUM_BYTES` bytes that are equal where everything is."""
        digest = hashlib.blake2b(digest_size=SUM_BYTES)
        for batch in self.batches:
            digest.update(batch.head)
        for bad in self.damaged:
            digest.update(b"damaged %d %d" % bad[:2])
        return digest.digest()


class Part(NamedTuple):
    """The part of a range that lies in one segment; half-open."""

    file: OpenFile
    base_offset: int
    from_offset: int
    to_offset: int
    known_bad: Sequence[BadRange]


def digest_of(parts: Sequence[Part]) -> RangeDigest:
    """Return the digest of these parts, read from the disk where the system can be told to. On any thread. Raises OSError."""
    batches: list[BatchDigest] = []
    damaged: list[BadRange] = []
    for part in parts:
        _from_disk(part, batches, damaged)
    return RangeDigest(tuple(batches), tuple(sorted(damaged)))


def _from_disk(part: Part, batches: list[BatchDigest], damaged: list[BadRange]) -> None:
    fd, position, length = part.file.fd, part.from_offset - part.base_offset, part.to_offset - part.from_offset
    was_cached = _is_cached(fd, position) and _is_cached(fd, position + length - 1)
    # The system would give its own copy. What it has not written yet it keeps.
    os.posix_fadvise(fd, position, length, os.POSIX_FADV_DONTNEED)
    found: list[BatchDigest] = []
    rest = part.from_offset
    if length <= READ_AT_ONCE:
        rest = _heads(memoryview(os.pread(fd, length, position)), part.from_offset, part.to_offset, found)
    if rest < part.to_offset:
        for one in walk(fd, part.base_offset, part.to_offset, from_offset=rest):
            if isinstance(one, BatchHeader):
                head = os.pread(fd, HEAD_BYTES, one.position - part.base_offset)
                found.append(BatchDigest(one.position, one.next_offset, head))
                rest = one.next_offset
            else:
                rest = one.to_offset if isinstance(one, BadRange) else part.to_offset
                damaged.append(BadRange(one.from_offset, rest, one.reason))
    if rest < part.to_offset:
        damaged.append(BadRange(rest, part.to_offset, f"the file ends before offset {part.to_offset}"))
    for bad in part.known_bad:
        found = [one for one in found if not bad.from_offset <= one.position < bad.to_offset]
        if not any(one.from_offset <= bad.from_offset and bad.to_offset <= one.to_offset for one in damaged):
            damaged.append(bad)
    batches += found
    if not was_cached:
        os.posix_fadvise(fd, position, length, os.POSIX_FADV_DONTNEED)


def _heads(data: memoryview, offset: int, to_offset: int, found: list[BatchDigest]) -> int:
    """Add the batches at the front of `data`, which begins at `offset`, as long as they are whole; return where that ends."""
    at, end_at, length = 0, 0, len(data)
    while length - at >= HEADER_SIZE and offset < to_offset:
        base_offset, size, magic, crc, delta, count = _CHECKED.unpack_from(data, at)
        size += LENGTH_PREFIX_SIZE
        advance = size if size > count else count
        end_at = at + size
        if base_offset != offset + advance - count or magic != MAGIC or size < HEADER_SIZE or end_at > length or count < 1:
            break
        if delta != count - 1 or offset + advance > to_offset or crc32c(data[at + CRC_COVERS_FROM : end_at]) != crc:
            break
        found.append(BatchDigest(offset, offset + advance, bytes(data[at : at + HEAD_BYTES])))
        offset += advance
        at += advance
    return offset


def _is_cached(fd: int, position: int) -> bool:
    try:
        os.preadv(fd, [bytearray(1)], position, os.RWF_NOWAIT)
    except OSError:
        return False
    return True
