"""DescribeDamage, key 20005: what of a broker's logs is damaged, and what was repaired. Our own protocol, not advertised.

request    repaired since int64    repairs at this time or later are named, in ms; -1: none
response   error int16 · broker int32 · now int64 · count int32, [row]
row        kind int8 (0 damaged, 1 the replicas differ and none is right by a majority, 2 repaired) · topic: int16 length, bytes ·
           partition int32 · from, to int64 each · at int64 (ms; 0: not known) · records int32 (of a repair) ·
           reason: int16 length, bytes
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from ..errors import MalformedFrame

KEY, VERSION = 20_005, 0
MOST_ROWS = 100_000
LONGEST_REASON_BYTES = 1_000

_REQUEST = struct.Struct(">q")
_HEAD = struct.Struct(">hiqi")
_LENGTH = struct.Struct(">h")
_ROW = struct.Struct(">iqqqi")


class Kind(IntEnum):
    DAMAGED = 0
    UNDECIDED = 1
    REPAIRED = 2


class Row(NamedTuple):
    """Offsets are half-open."""

    kind: Kind
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    at_ms: int
    """Since when it is damaged, or when it was repaired, by the broker's clock; 0: not known."""
    records: int = 0
    reason: str = ""


class Response(NamedTuple):
    error_code: int
    broker_id: int = -1
    now_ms: int = 0
    rows: tuple[Row, ...] = ()


def encode_request(repaired_since_ms: int) -> bytes:
    return _REQUEST.pack(repaired_since_ms)


def decode_request(body: bytes | memoryview) -> int:
    """Return since when repairs are asked for. Raises MalformedFrame."""
    try:
        return int(_REQUEST.unpack(body)[0])
    except struct.error:
        raise MalformedFrame(f"DescribeDamage of {len(body)} bytes where {_REQUEST.size} are expected") from None


def encode_response(response: Response) -> bytes:
    parts = [_HEAD.pack(*response[:3], len(response.rows))]
    for row in response.rows:
        topic, reason = row.topic.encode(), row.reason.encode()[:LONGEST_REASON_BYTES]
        parts += (
            bytes((row.kind,)),
            _LENGTH.pack(len(topic)),
            topic,
            _ROW.pack(row.partition, row.from_offset, row.to_offset, row.at_ms, row.records),
            _LENGTH.pack(len(reason)),
            reason,
        )
    return b"".join(parts)


def decode_response(body: memoryview) -> Response:
    """Raises MalformedFrame."""
    try:
        error_code, broker_id, now_ms, count = _HEAD.unpack_from(body)
        if not 0 <= count <= MOST_ROWS:
            raise MalformedFrame(f"{count} rows in a response to DescribeDamage: at most {MOST_ROWS} are taken")
        at, rows = _HEAD.size, []
        for _ in range(count):
            kind = Kind(body[at])
            topic, at = _text(body, at + 1)
            partition, from_offset, to_offset, at_ms, records = _ROW.unpack_from(body, at)
            reason, at = _text(body, at + _ROW.size)
            rows.append(Row(kind, topic, partition, from_offset, to_offset, at_ms, records, reason))
    except (struct.error, ValueError, IndexError):
        raise MalformedFrame(f"a response to DescribeDamage of {len(body)} bytes cannot be read") from None
    return Response(error_code, broker_id, now_ms, tuple(rows))


def _text(body: memoryview, at: int) -> tuple[str, int]:
    (length,) = _LENGTH.unpack_from(body, at)
    end = at + _LENGTH.size + length
    if length < 0 or end > len(body):
        raise MalformedFrame("a text in a response to DescribeDamage is cut")
    return str(body[at + _LENGTH.size : end], "utf-8", "replace"), end
