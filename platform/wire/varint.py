"""Zig-zag varints of Kafka's records. Source: Kafka's `ByteUtils.readVarint`, `writeVarlong`.

The loops over records handle varints of one and two bytes in place; longer ones are read here.
"""

from .errors import CorruptBatch

_LONGEST = 10


def zigzag(value: int) -> bytes:
    """Return the signed `value` as a zig-zag varint: 1 byte from -64 to 63, 10 at most. Raises `OverflowError` beyond int64."""
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError(f"{value} does not fit 64 bits")
    return unsigned((value << 1) ^ (value >> 63))


def unsigned(value: int) -> bytes:
    """Return the non-negative `value` as a varint, seven bits a byte, lowest first."""
    if 0x80 <= value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if 1 << 14 <= value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    """Return the signed value at byte `at` and the byte after it. Raises as `read_raw`."""
    raw, at = read_raw(data, at)
    return (raw >> 1) ^ -(raw & 1), at


def read_raw(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at byte `at` (64 bits, its sign still in the lowest) and the byte after it.

    Raises `CorruptBatch` past ten bytes, `IndexError` when cut.
    """
    raw = shift = 0
    for _ in range(_LONGEST):
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise CorruptBatch(f"a varint before byte {at} is longer than {_LONGEST} bytes")


def size_of_unsigned(value: int) -> int:
    """Return how many bytes `unsigned(value)` takes."""
    return max(1, (value.bit_length() + 6) // 7)


SHORT = tuple(unsigned(value) for value in range(1 << 13))
"""The varints of 0 to 8191, made once. Nearly every length and delta of a record is one of them."""
