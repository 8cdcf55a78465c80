"""Makes a log of any length that takes little disk: real batch headers a MiB apart, holes between them.

Each batch is whole and valid for a broker: its records are zeros, and its header has the CRC of zeros. No client can decode these
records, and none has to: the bench appends and fetches behind them.
"""

import os
import struct
from pathlib import Path

from headrace.wire.batch.crc32c import crc32c

BATCH_BYTES = 1 << 20
SEGMENT_BYTES = 1 << 30
_HEADER_BYTES = 61
_CRC_FROM = 21


def header_of(template: bytes) -> bytes:
    """Return the header of a batch of `BATCH_BYTES` zeros, otherwise like `template`, a batch from a broker's log.

    Its base offset is that of the first batch of a log: it takes as many offsets as bytes, and its records have the last ones.
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
