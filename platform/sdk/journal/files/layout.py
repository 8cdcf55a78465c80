"""The bytes of a journal's segment: its header and its records. Pure: bytes in, values out. All integers are little-endian.

A record counts if its CRC holds. Nothing else tells a whole record from a torn one: not its place, not its length. The CRC starts
from the segment's salt, so bytes that an older file left on the disk never pass.

    segment header, 64 bytes                     record, at a multiple of 8 bytes
     0  8s  magic b"HRJRNL\\r\\n"                   0  u32  CRC-32C of [4, length), started from the salt
     8  u32 version                               4  u32  length, without the padding; 0: nothing is written here yet
    12  u32 header length (64)                    8  u64  number in the journal, from 0
    16  16s journal id                           16  i64  timestamp_ms
    32  u64 segment number                       24  u8   kind
    40  u64 segment bytes                        25  u8   0
    48  12s 0                                    26  u16  0
    60  u32 CRC-32C of [0, 60)                   28  i32  key length, -1: no key
                                                 32  …    key, body; zeros up to a multiple of 8
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from ....wire.batch.crc32c import crc32c
from ..errors import JournalTooNew

VERSION = 1
MAGIC = b"HRJRNL\r\n"
HEADER_BYTES = 64
RECORD_HEAD_BYTES = 32
ALIGNMENT = 8

_HEADER = struct.Struct("<8sII16sQQ12x")
_CRC = struct.Struct("<I")
_REST = struct.Struct("<IQqBxHi")
"""A record's head behind its CRC."""
_MARK = struct.Struct("<II")
_PADDING = tuple(bytes(-length % ALIGNMENT) for length in range(ALIGNMENT))


class Kind(IntEnum):
    """What a record is."""

    EVENT = 1
    """An event: the body is its Avro body."""
    QUARANTINE = 2
    """A refused event: the body is a QuarantineRecord's JSON."""
    END_OF_SEGMENT = 3
    """Fills a segment up to its end. The journal continues in the next one."""
    END_OF_JOURNAL = 4
    """Fills the last segment up to its end. The journal was closed; `number` is how many records it holds."""


_KINDS = frozenset(map(int, Kind))
_ENDS = (Kind.END_OF_SEGMENT, Kind.END_OF_JOURNAL)


class RawRecord(NamedTuple):
    """A record as it is in a segment."""

    number: int
    timestamp_ms: int
    kind: int
    key: bytes | None
    body: bytes
    end: int
    """The position behind it and its padding."""

    @property
    def is_end(self) -> bool:
        return self.kind in _ENDS


def salt_of(journal_id: bytes, segment: int) -> int:
    """Return what the CRCs of a segment's records start from. It can be computed where the segment's header is lost."""
    return crc32c(segment.to_bytes(8, "little"), crc32c(journal_id))


def header_of(journal_id: bytes, segment: int, segment_bytes: int) -> bytes:
    """Return a segment's header."""
    words = _HEADER.pack(MAGIC, VERSION, HEADER_BYTES, journal_id, segment, segment_bytes)
    return words + _CRC.pack(crc32c(words))


def check_version(header: bytes, where: str) -> bool:
    """Return whether this is a segment's header, whole. Raises `JournalTooNew` if a later version wrote it."""
    if len(header) < HEADER_BYTES or crc32c(header[: HEADER_BYTES - 4]) != _CRC.unpack_from(header, HEADER_BYTES - 4)[0]:
        return False
    magic, version, *_ = _HEADER.unpack_from(header)
    if magic == MAGIC and version > VERSION:
        raise JournalTooNew(where, version, VERSION)
    return bool(magic == MAGIC)


def record_bytes(number: int, timestamp_ms: int, kind: int, key: bytes | None, body: bytes, salt: int) -> bytes:
    """Return a record with its padding. Hot: the pure writer calls it for each event."""
    if key is None:
        length = RECORD_HEAD_BYTES + len(body)
        rest = _REST.pack(length, number, timestamp_ms, kind, 0, -1) + body
    else:
        length = RECORD_HEAD_BYTES + len(key) + len(body)
        rest = _REST.pack(length, number, timestamp_ms, kind, 0, len(key)) + key + body
    return _CRC.pack(crc32c(rest, salt)) + rest + _PADDING[length & 7]


def size_of(key: bytes | None, body: bytes) -> int:
    """Return the bytes that a record takes, padding included."""
    length = RECORD_HEAD_BYTES + len(body) + (0 if key is None else len(key))
    return length + -length % ALIGNMENT


def is_blank(memory: memoryview, at: int) -> bool:
    """Return whether nothing was written at `at` yet, as far as its commit mark tells."""
    return memory[at : at + ALIGNMENT] == _PADDING_WORD


_PADDING_WORD = bytes(ALIGNMENT)


def record_at(memory: memoryview, at: int, salt: int) -> RawRecord | None:
    """Return the record at `at`; None where none is that counts. Never raises, whatever the bytes are."""
    if at + RECORD_HEAD_BYTES > len(memory):
        return None
    crc, length = _MARK.unpack_from(memory, at)
    if length < RECORD_HEAD_BYTES or at + length > len(memory):
        return None
    if crc32c(memory[at + 4 : at + length], salt) != crc:
        return None
    _, number, timestamp_ms, kind, _, key_bytes = _REST.unpack_from(memory, at + 4)
    body_at = at + RECORD_HEAD_BYTES
    if kind not in _KINDS or body_at + max(0, key_bytes) > at + length:
        return None
    key = None if key_bytes < 0 else bytes(memory[body_at : body_at + key_bytes])
    body = bytes(memory[body_at + max(0, key_bytes) : at + length])
    return RawRecord(number, timestamp_ms, kind, key, body, at + length + -length % ALIGNMENT)


def next_record_from(memory: memoryview, at: int, salt: int) -> int | None:
    """Return where the first record is at or behind `at`, a multiple of 8; None if there is none up to the end."""
    end = len(memory) - len(memory) % ALIGNMENT
    page = bytes(_PAGE_BYTES)
    while at < end:
        border = min(end, at - at % _PAGE_BYTES + _PAGE_BYTES)
        if memory[at:border] != page[: border - at]:
            for place in range(at, border, ALIGNMENT):
                if not is_blank(memory, place) and record_at(memory, place, salt) is not None:
                    return place
        at = border
    return None


_PAGE_BYTES = 4096
