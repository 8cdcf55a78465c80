"""Rising places of records, packed: pairs of varints (places left out, places taken). Pure. `native/batches.c` reads and writes
the same.
"""

from collections.abc import Iterator, Sequence

from ...wire.varint import unsigned


def pack_picks(picks: Sequence[int]) -> bytes:
    """Return rising places as bytes."""
    out: list[bytes] = []
    expected, start = 0, 0
    for number in range(1, len(picks) + 1):
        if number == len(picks) or picks[number] != picks[number - 1] + 1:
            out += (unsigned(picks[start] - expected), unsigned(number - start))
            expected, start = picks[number - 1] + 1, number
    return b"".join(out)


def unpack_picks(packed: bytes) -> tuple[int, ...]:
    """Return the places that `pack_picks` has packed."""
    return tuple(place for run in runs_of(packed) for place in run)


def runs_of(packed: bytes) -> Iterator[range]:
    """Yield the places run by run."""
    numbers: list[int] = []
    value = shift = 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    at = 0
    for left_out, taken in zip(numbers[::2], numbers[1::2], strict=True):
        yield range(at + left_out, at + left_out + taken)
        at += left_out + taken


def split_picks(packed: bytes, count: int) -> tuple[bytes, bytes]:
    """Return the first `count` places and the others."""
    places = unpack_picks(packed)
    return pack_picks(places[:count]), pack_picks(places[count:])
