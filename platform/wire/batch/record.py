"""Opening a batch: its records, or only their timestamps. Source: Kafka's `DefaultRecord`.

    length varint | attributes int8 (unused) | timestamp delta varlong | offset delta varint | key length varint (-1 null) | key
    | value length varint (-1 null) | value | count of headers varint | each: key length varint, key UTF-8, value length varint
    (-1), value

Every varint is zig-zag. Does not check the CRC: the receiver of the bytes did. Both loops are hot and make no object that the
caller does not need.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ..errors import CorruptBatch, WireError
from ..varint import read_raw, read_zigzag
from .batch_header import HEADER_SIZE, BatchHeader, Buffer, read_header
from .compression import Codec, decompress

MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
"""The default bound of an unpacked batch: above any broker's limit, far below a machine's memory."""

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record. A named tuple for speed: one is made for every record that a consumer reads."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


_NEW = tuple.__new__


def iter_records(batch: Buffer, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """Yield the records of one batch, in order; each with its offset in the log.

    A control batch yields nothing: its one record is a marker, not data. Raises `CorruptBatch` where the records are not what the
    header counts: cut, too many, offsets that do not rise, a bomb beyond `max_decompressed_bytes`. What was yielded before is
    sound.
    """
    header = read_header(batch)
    if header.is_control:
        return
    data = _opened(header, batch, max_decompressed_bytes)
    base_offset, base_ms = header.base_offset, header.base_timestamp_ms
    appended_ms = header.max_timestamp_ms if header.is_log_append_time else None
    at = 0
    end = len(data)
    last_delta = -1
    # `raw` is a varint before its sign is taken out of the lowest bit: odd means negative, and 1 is the -1 that stands for null.
    try:
        for _ in range(header.record_count):
            raw = data[at]
            at += 1
            if raw > 0x7F:
                if (high := data[at]) < 0x80:
                    at += 1
                    raw = raw & 0x7F | high << 7
                else:
                    raw, at = read_raw(data, at - 1)
            after = at + (raw >> 1)
            if raw & 1 or after > end:
                raise _wrong(header, f"a record at byte {at} of {end} that would end at byte {after}")
            raw = data[at + 1]  # behind the record's own attributes, unused
            at += 2
            if raw > 0x7F:
                if (high := data[at]) < 0x80:
                    at += 1
                    raw = raw & 0x7F | high << 7
                else:
                    raw, at = read_raw(data, at - 1)
            timestamp_ms = base_ms + ((raw >> 1) ^ -(raw & 1)) if appended_ms is None else appended_ms
            raw = data[at]
            at += 1
            if raw > 0x7F:
                if (high := data[at]) < 0x80:
                    at += 1
                    raw = raw & 0x7F | high << 7
                else:
                    raw, at = read_raw(data, at - 1)
            delta = raw >> 1
            if delta <= last_delta or raw & 1:
                raise _wrong(header, f"offset delta {(raw >> 1) ^ -(raw & 1)} after {last_delta}")
            last_delta = delta
            raw = data[at]
            at += 1
            if raw > 0x7F:
                if (high := data[at]) < 0x80:
                    at += 1
                    raw = raw & 0x7F | high << 7
                else:
                    raw, at = read_raw(data, at - 1)
            if raw == 1:
                key: bytes | None = None
            else:
                if raw & 1:
                    raise _wrong(header, f"a key of {-(raw >> 1) - 1} bytes")
                key = data[at : at + (raw >> 1)]
                at += raw >> 1
            raw = data[at]
            at += 1
            if raw > 0x7F:
                if (high := data[at]) < 0x80:
                    at += 1
                    raw = raw & 0x7F | high << 7
                else:
                    raw, at = read_raw(data, at - 1)
            if raw == 1:
                value: bytes | None = None
            else:
                if raw & 1:
                    raise _wrong(header, f"a value of {-(raw >> 1) - 1} bytes")
                value = data[at : at + (raw >> 1)]
                at += raw >> 1
            if data[at]:
                headers, at = _headers(header, data, at, after)
            else:
                headers = ()
                at += 1
            # A wrong length may have led past the record's end above: this check covers all of them.
            if at != after:
                raise _wrong(header, f"a record that ends at byte {at} where its length says {after}")
            yield _NEW(Record, (base_offset + delta, timestamp_ms, key, value, headers))
    except (IndexError, UnicodeDecodeError) as error:
        raise _wrong(header, f"the records are cut or garbled near byte {at} of {end} ({error})") from None
    if at != end:
        raise _wrong(header, f"{end - at} bytes after the last of {header.record_count} records")


def iter_timestamps(batch: Buffer, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[int]:
    """Yield each record's timestamp in ms, in order. Raises `CorruptBatch` as `iter_records` does."""
    header = read_header(batch)
    if header.is_control:
        return
    data = _opened(header, batch, max_decompressed_bytes)
    base_ms = header.base_timestamp_ms
    appended_ms = header.max_timestamp_ms if header.is_log_append_time else None
    after = 0
    end = len(data)
    try:
        for _ in range(header.record_count):
            raw = data[after]
            at = after + 1
            if raw > 0x7F:
                if (high := data[at]) < 0x80:
                    at += 1
                    raw = raw & 0x7F | high << 7
                else:
                    raw, at = read_raw(data, after)
            after = at + (raw >> 1)
            if raw & 1 or after > end:
                raise _wrong(header, f"a record at byte {at} of {end} that would end at byte {after}")
            raw = data[at + 1]
            if raw > 0x7F:
                if (high := data[at + 2]) < 0x80:
                    raw = raw & 0x7F | high << 7
                else:
                    raw, _at = read_raw(data, at + 1)
            yield base_ms + ((raw >> 1) ^ -(raw & 1)) if appended_ms is None else appended_ms
    except IndexError:
        raise _wrong(header, f"the records are cut near byte {after} of {end}") from None
    if after != end:
        raise _wrong(header, f"{end - after} bytes after the last of {header.record_count} records")


def is_surely_between(header: BatchHeader, batch: Buffer, from_ms: int, to_ms: int) -> bool:
    """Return whether base timestamp and every record's own timestamp are in [from_ms, to_ms).

    Several times as fast as `iter_timestamps`, which tells what False leaves open: it is also the answer where the records cannot
    be read. Not for a batch that a broker has stamped: its header says all.
    """
    base_ms = header.base_timestamp_ms
    if not from_ms <= base_ms < to_ms:
        return False
    # As deltas are on the wire: doubled, and those below zero odd.
    latest, earliest = 2 * (to_ms - 1 - base_ms), 2 * (base_ms - from_ms) - 1
    after = 0
    try:
        data = _opened(header, batch, MAX_DECOMPRESSED_BYTES)
        end = len(data)
        for _ in range(header.record_count):
            raw = data[after]
            at = after + 1
            if raw > 0x7F:
                if (high := data[at]) < 0x80:
                    at += 1
                    raw = raw & 0x7F | high << 7
                else:
                    raw, at = read_raw(data, after)
            after = at + (raw >> 1)
            if raw & 1 or after > end:
                return False
            raw = data[at + 1]
            if raw > 0x7F:
                if (high := data[at + 2]) < 0x80:
                    raw = raw & 0x7F | high << 7
                else:
                    raw, _at = read_raw(data, at + 1)
            if raw > (earliest if raw & 1 else latest):
                return False
    except (IndexError, WireError):
        return False
    return after == end


def unpacked_records(header: BatchHeader, batch: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes | memoryview:
    """Return a batch's records as they are framed, one behind the other; a view of them where nothing is packed.

    Raises `CorruptBatch` for a cut batch, an unknown codec, data that cannot be unpacked, and a bomb beyond `max_bytes`.
    """
    if len(batch) < header.size_bytes:
        raise _wrong(header, f"{len(batch)} of its {header.size_bytes} bytes are here")
    packed = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    codec = header.codec
    return packed if codec is Codec.NONE else decompress(codec, packed, max_bytes=max_bytes)


def _opened(header: BatchHeader, batch: Buffer, max_bytes: int) -> bytes:
    # Bytes, not a view: indexing them is twice as fast, and keys and values become bytes without another copy.
    return bytes(unpacked_records(header, batch, max_bytes))


def _headers(header: BatchHeader, data: bytes, at: int, after: int) -> tuple[tuple[Header, ...], int]:
    count, at = read_zigzag(data, at)
    # A header takes at least two bytes, so a count beyond that is wrong and is refused before the loop.
    if count < 0 or count > (after - at) // 2:
        raise _wrong(header, f"{count} headers in a record with {after - at} bytes left")
    headers: list[Header] = []
    for _ in range(count):
        size, at = read_zigzag(data, at)
        if size < 0 or at + size > after:
            raise _wrong(header, f"a header key of {size} bytes")
        key = data[at : at + size].decode()
        at += size
        size, at = read_zigzag(data, at)
        if size < -1 or at + size > after:
            raise _wrong(header, f"a header value of {size} bytes")
        if size == -1:
            headers.append((key, None))
        else:
            headers.append((key, data[at : at + size]))
            at += size
    return tuple(headers), at


def _wrong(header: BatchHeader, what: str) -> CorruptBatch:
    return CorruptBatch(f"the batch at offset {header.base_offset} cannot be read: {what}", base_offset=header.base_offset)
