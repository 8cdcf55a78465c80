"""The 61 bytes in front of every record batch: reading them, walking from batch to batch, checking the CRC.

Opens no batch. Source: Kafka's `DefaultRecordBatch` (magic 2).

    at  size  field                                    under the CRC
     0     8  base offset                              no
     8     4  bytes after this field                   no
    12     4  partition leader epoch                   no
    16     1  magic, 2                                 no
    17     4  CRC-32C of everything from byte 21 on    -
    21     2  attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon, 7 ours (below)
    23     4  last offset delta
    27     8  base timestamp (ms)
    35     8  maximum timestamp (ms)
    43     8  producer id, -1 none
    51     2  producer epoch, -1 none
    53     4  base sequence, -1 none
    57     4  count of records
    61     -  records; one compressed block if there is a codec
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import CorruptBatch
from .compression import Codec
from .crc32c import crc32c

HEADER_SIZE = 61
LENGTH_PREFIX_SIZE = 12
"""Base offset and length: the bytes that tell how long the batch is."""
MAGIC = 2
MAGIC_AT = 16
CRC_AT = 17
CRC_COVERS_FROM = 21

TIMESTAMPS_BOUNDED = 0x0080
"""Attribute bit that our own builder sets, unused by Kafka: base timestamp <= every record's timestamp <= maximum timestamp.

Other producers' base timestamp is only their first record's, so without the bit the header does not give the window.
"""
_CODEC = 0x0007
_LOG_APPEND_TIME = 0x0008
_TRANSACTIONAL = 0x0010
_CONTROL = 0x0020

# The magic is skipped here (x): it is checked before anything else.
_HEADER = struct.Struct(">qiixIHiqqqhii")
_CRC = struct.Struct(">I")
_NEW = tuple.__new__
_CODECS = tuple(Codec)

Buffer = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    """The header of a batch. A named tuple, because one is made for every batch (0.5 against 1.9 µs)."""

    base_offset: int
    size_bytes: int
    """The size of the whole batch, with the 12 bytes of base offset and length."""
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> Codec:
        """Return the codec of the records; raises `CorruptBatch` for 5 to 7, which Kafka does not know."""
        number = self.attributes & _CODEC
        if number >= len(_CODECS):
            raise CorruptBatch(
                f"the batch at offset {self.base_offset} names codec {number}: Kafka knows 0 (none) to 4 (zstd)",
                base_offset=self.base_offset,
            )
        return _CODECS[number]

    @property
    def is_packed(self) -> bool:
        """Return whether the records are compressed."""
        return bool(self.attributes & _CODEC)

    @property
    def next_offset(self) -> int:
        """Return the offset after the batch, where the next one begins: in a byte-addressed log and in a dense one."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def position(self) -> int:
        """Return where the batch begins in a byte-addressed log: its offsets are [position, next_offset).

        The records' own offsets are the last of them. In a dense log (Apache Kafka's) it is the base offset or less, so there
        `max(position, where the batch before it ended)` is where it begins.
        """
        return self.base_offset + self.record_count - advance_of(self.size_bytes, self.record_count)

    @property
    def is_dense(self) -> bool:
        """Return whether the batch has a record for each offset delta. Only compacted topics of Apache Kafka have gaps."""
        return self.last_offset_delta == self.record_count - 1

    @property
    def is_control(self) -> bool:
        """Return whether the batch holds a transaction's marker, which applications must not see."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> bool:
        """Return whether a broker stamped the batch: every record then has the maximum timestamp."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def timestamps_bounded(self) -> bool:
        """Return whether base and maximum timestamp are known to enclose every record's."""
        return (
            bool(self.attributes & (TIMESTAMPS_BOUNDED | _LOG_APPEND_TIME)) and self.first_timestamp_ms <= self.max_timestamp_ms
        )

    @property
    def first_timestamp_ms(self) -> int:
        """Return the lowest timestamp where `timestamps_bounded`, else only the first record's."""
        return self.max_timestamp_ms if self.attributes & _LOG_APPEND_TIME else self.base_timestamp_ms


def advance_of(size_bytes: int, record_count: int) -> int:
    """Return how many offsets a batch takes in a byte-addressed log: its bytes, or its records where those are more."""
    return size_bytes if size_bytes > record_count else record_count


def read_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """Return the header of the batch that begins at byte `at`. Hot: once per batch everywhere.

    The batch itself need not be in the buffer, nor is its CRC looked at. Raises `CorruptBatch` for fewer than 61 bytes, a magic
    other than 2, a length below the header's, a negative count or offset delta.
    """
    try:
        magic = buffer[at + MAGIC_AT]
        header = _HEADER.unpack_from(buffer, at)
    except (struct.error, IndexError):
        raise CorruptBatch(f"a batch header takes {HEADER_SIZE} bytes and there are {max(0, len(buffer) - at)}") from None
    if magic != MAGIC:
        raise CorruptBatch(
            f"the batch has magic {magic} and only 2 is read: let the producer write Kafka's format 2 (clients since 0.11)"
        )
    base_offset, length, epoch, crc, attributes, delta, base_ms, max_ms, producer_id, producer_epoch, sequence, count = header
    if length < HEADER_SIZE - LENGTH_PREFIX_SIZE or count < 0 or delta < 0 or base_offset < 0:
        raise CorruptBatch(
            f"absurd batch header: base offset {base_offset}, length {length}, {count} records, last offset delta {delta}",
            base_offset=base_offset,
        )
    return _NEW(
        BatchHeader,
        (
            base_offset,
            length + LENGTH_PREFIX_SIZE,
            epoch,
            crc,
            attributes,
            delta,
            base_ms,
            max_ms,
            producer_id,
            producer_epoch,
            sequence,
            count,
        ),
    )


def crc_matches(buffer: Buffer, at: int, size_bytes: int) -> bool:
    """Return whether the batch of `size_bytes` at byte `at` is what its producer wrote. False also when it is cut."""
    end = at + size_bytes
    if size_bytes < HEADER_SIZE or end > len(buffer):
        return False
    (expected,) = _CRC.unpack_from(buffer, at + CRC_AT)
    return bool(crc32c(memoryview(buffer)[at + CRC_COVERS_FROM : end]) == expected)


def iter_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield each whole batch with its header, as views into `buffer`; a cut last one ends the walk, as after any Fetch.

    CRCs are not checked. Raises `CorruptBatch` at a header that cannot be read.
    """
    view = memoryview(buffer)
    at, end = 0, len(view)
    while end - at >= HEADER_SIZE:
        header = read_header(view, at)
        after = at + header.size_bytes
        if after > end:
            return
        yield header, view[at:after]
        at = after
