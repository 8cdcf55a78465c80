"""Giving a batch the time at which a broker took it, in place of its producer's: `message.timestamp.type=LogAppendTime`.

Opens no batch: a bit says that the maximum timestamp is every record's. Knows no clock. Source: Kafka's `DefaultRecordBatch`.
"""

import struct

from .batch_header import CRC_AT, BatchHeader
from .crc32c import patched

LOG_APPEND_TIME = 0x0008
"""The attribute bit. Only a broker sets it."""

_CRC_ATTRIBUTES = struct.Struct(">IH")
_MAX_TIMESTAMP = struct.Struct(">q")
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_WORD = 0xFFFFFFFF


def stamp(batch: bytearray | memoryview, header: BatchHeader, appended_ms: int) -> BatchHeader:
    """Write bit, maximum timestamp and CRC into `batch` and return its header as it is now.

    `batch` is writable and begins with the whole batch that `header` was read from. The base timestamp stays, as in Kafka. The
    CRC is patched, never recomputed, as by `place`.
    """
    attributes = header.attributes | LOG_APPEND_TIME
    change = header.max_timestamp_ms ^ appended_ms
    size_bytes = header.size_bytes
    crc = header.crc
    for word, at in (
        ((attributes ^ header.attributes) << 16, _ATTRIBUTES_AT),
        (change >> 32 & _WORD, _MAX_TIMESTAMP_AT),
        (change & _WORD, _MAX_TIMESTAMP_AT + 4),
    ):
        if word:
            crc = patched(crc, word, size_bytes - at - 4)
    _CRC_ATTRIBUTES.pack_into(batch, CRC_AT, crc, attributes)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, appended_ms)
    return header._replace(crc=crc, attributes=attributes, max_timestamp_ms=appended_ms)
