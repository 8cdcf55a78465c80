"""Stamping a batch with the broker's append time instead of the producer's time: `message.timestamp.type=LogAppendTime`.

Opens no batch: a bit says that every record has the maximum timestamp. Knows no clock. Source: Kafka's `DefaultRecordBatch`.
"""

import struct

from .batch_header import CRC_AT, BatchHeader
from .crc32c import patched

LOG_APPEND_TIME = 0x0008
"""The attribute bit. Only a broker sets it."""

_CRC_ATTRIBUTES = struct.Struct(">IH")
_MAX_TIMESTAMP = struct.Struct(">q")
_CHANGE = struct.Struct(">H12xQ")
"""Attributes, last offset delta and base timestamp, maximum timestamp: from the first field that changes to the last."""
_CHANGE_END = 43
_MAX_TIMESTAMP_AT = 35
_LONG = (1 << 64) - 1


def stamp(batch: bytearray | memoryview, header: BatchHeader, appended_ms: int) -> BatchHeader:
    """Write bit, maximum timestamp and CRC into `batch` and return its header as it is now.

    `batch` is writable and begins with the whole batch that `header` was read from. The base timestamp stays, as in Kafka. The
    CRC is patched, never recomputed: a byte that went wrong in memory since it was checked still shows.
    """
    attributes = header.attributes | LOG_APPEND_TIME
    change = _CHANGE.pack(attributes ^ header.attributes, (header.max_timestamp_ms ^ appended_ms) & _LONG)
    crc = patched(header.crc, change, header.size_bytes - _CHANGE_END)
    _CRC_ATTRIBUTES.pack_into(batch, CRC_AT, crc, attributes)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, appended_ms)
    return header._replace(crc=crc, attributes=attributes, max_timestamp_ms=appended_ms)
