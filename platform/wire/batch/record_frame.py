"""One record's bytes, made when it is appended, and moved when the batch's base timestamp turns out to be lower. Pure.

The layout is drawn in `record`. `batch_builder` makes the same bytes for records that are collected first.
"""

from collections.abc import Sequence

from ..varint import SHORT, read_zigzag, unsigned, zigzag

_SHORT_COUNT = len(SHORT)
_NULL = b"\x01"
_NO_HEADERS = b"\x00"
_NO_ATTRIBUTES = b"\x00"
_join = b"".join


def frame_record(delta_ms: int, offset_delta: int, key: bytes | None, prefix: bytes, body: bytes) -> bytes:
    """Return a record without headers, whose value is `prefix` + `body`. Hot: once for each event of a logger."""
    if delta_ms < 0:
        return frame_any(delta_ms, offset_delta, key, prefix + body, ())
    # None of these is negative, so zig-zag is a doubling.
    delta_ms <<= 1
    offset_delta <<= 1
    value_size = (len(prefix) + len(body)) << 1
    lead = SHORT[delta_ms] if delta_ms < _SHORT_COUNT else unsigned(delta_ms)
    offset = SHORT[offset_delta] if offset_delta < _SHORT_COUNT else unsigned(offset_delta)
    length = SHORT[value_size] if value_size < _SHORT_COUNT else unsigned(value_size)
    if key is None:
        record = _join((_NO_ATTRIBUTES, lead, offset, _NULL, length, prefix, body, _NO_HEADERS))
    else:
        key_size = len(key) << 1
        sized_key = (SHORT[key_size] if key_size < _SHORT_COUNT else unsigned(key_size)) + key
        record = _join((_NO_ATTRIBUTES, lead, offset, sized_key, length, prefix, body, _NO_HEADERS))
    size = len(record) << 1
    return (SHORT[size] if size < _SHORT_COUNT else unsigned(size)) + record


def frame_any(
    delta_ms: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> bytes:
    """Return any record."""
    record = _join(
        (
            _NO_ATTRIBUTES,
            zigzag(delta_ms),
            zigzag(offset_delta),
            sized(key),
            sized(value),
            zigzag(len(headers)),
            *(part for name, content in headers for part in (sized(name.encode()), sized(content))),
        )
    )
    return zigzag(len(record)) + record


def moved(frame: bytes, by_ms: int) -> bytes:
    """Return the record for a batch whose base timestamp is `by_ms` lower than the one it was framed for."""
    _, at = read_zigzag(frame, 0)
    delta_ms, rest = read_zigzag(frame, at + 1)
    record = _join((_NO_ATTRIBUTES, zigzag(delta_ms + by_ms), frame[rest:]))
    return zigzag(len(record)) + record


def sized(data: bytes | None) -> bytes:
    """Return the bytes behind their length; -1 stands for None."""
    return _NULL if data is None else zigzag(len(data)) + data
