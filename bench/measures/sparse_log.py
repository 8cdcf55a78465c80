"""Makes a partition's log as long as wanted without the disk for it: real batch headers a MiB apart, holes between them.

Each batch is whole and valid for a broker: its records are zeros, and the CRC in its header is that of zeros. Nobody could
read its messages, but nobody who appends at the end or fetches there ever needs to.
"""

import os
import struct
from pathlib import Path

from headrace.wire.crc32c import crc32c

BATCH_BYTES = 1 << 20
SEGMENT_BYTES = 1 << 30
_HEADER_BYTES = 61
_CRC_FROM = 21


def header_of(template: bytes) -> bytes:
    """Return the header of a batch of `BATCH_BYTES` zeros that is otherwise like `template`, a batch as a broker keeps it.

    Its base offset is that of a batch at the beginning of a log: its offsets are as many as its bytes, its records have the last.
    """
    head = bytearray(template[:_HEADER_BYTES])
    (record_count,) = struct.unpack_from(">i", head, 57)
    struct.pack_into(">qi", head, 0, BATCH_BYTES - record_count, BATCH_BYTES - 12)
    crc = crc32c(bytes(head[_CRC_FROM:]) + bytes(BATCH_BYTES - _HEADER_BYTES))
    struct.pack_into(">I", head, 17, crc)
    return bytes(head)


def write(folder: Path, template: bytes, total_bytes: int) -> int:
    """Replace the segments in `folder` by a sparse log of at least `total_bytes`, and return its end offset."""
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()
    head = header_of(template)
    (first,) = struct.unpack_from(">q", head)
    for base in range(0, total_bytes, SEGMENT_BYTES):
        descriptor = os.open(folder / f"{base:020}.log", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, SEGMENT_BYTES)
            for position in range(0, SEGMENT_BYTES, BATCH_BYTES):
                os.pwrite(descriptor, struct.pack(">q", base + position + first) + head[8:], position)
        finally:
            os.close(descriptor)
    return -(-total_bytes // SEGMENT_BYTES) * SEGMENT_BYTES
