"""Avro's varints from tables: seven bits a byte, lowest first; signed numbers zig-zag. Source: Avro's specification."""

from ...wire.varint import unsigned

_BITS = 14
_COUNT = 1 << _BITS
_MASK = _COUNT - 1

_LAST = tuple(unsigned(value) for value in range(_COUNT))
"""Varints of 0 to 16383."""
_MORE = tuple(bytes((value & 0x7F | 0x80, value >> 7 | 0x80)) for value in range(_COUNT))
"""Fourteen bits, with more to follow."""


def varint(value: int) -> bytes:
    """Return the non-negative `value` as a varint. Hot: two lookups for the 42 bits of a time in ms."""
    if value < _COUNT:
        return _LAST[value]
    out = _MORE[value & _MASK]
    value >>= _BITS
    while value >= _COUNT:
        out += _MORE[value & _MASK]
        value >>= _BITS
    return out + _LAST[value]


def zigzag(value: int) -> bytes:
    """Return the signed 64-bit `value` as a zig-zag varint; the caller has checked its range."""
    return varint((value << 1) ^ (value >> 63))
