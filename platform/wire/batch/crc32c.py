"""CRC-32C (Castagnoli) as Kafka's batches carry it, and the patch that follows a changed field without reading the rest.

Knows no batch layout. Source: RFC 3720 appendix B.4 for the polynomial; the patch rests on a CRC being linear over XOR.
"""

from collections.abc import Callable
from typing import cast


def _portable() -> Callable[[bytes | bytearray | memoryview, int], int]:
    """Return the pure fallback (crcmod), for machines without a wheel of `crc32c`."""
    import crcmod.predefined  # type: ignore[import-untyped, unused-ignore]

    compute = crcmod.predefined.mkCrcFun("crc-32c")

    def portable(data: bytes | bytearray | memoryview, value: int = 0) -> int:
        # crcmod refuses memoryviews of some kinds: a copy is the price of the fallback.
        return int(compute(bytes(data), value))

    return portable


try:
    from crc32c import crc32c as _native

    _compute = cast("Callable[[bytes | bytearray | memoryview, int], int]", _native)
except ImportError:  # no wheel for this machine: the portable fallback
    _compute = _portable()


def crc32c(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    """Return the CRC-32C of `data`, continuing from `value`, the CRC of what came before it."""
    return _compute(data, value)


def patched(crc: int, change: bytes, bytes_after: int) -> int:
    """Return what `crc` becomes when a field is XORed with `change` and `bytes_after` bytes follow that field.

    A message that was corrupt before the patch is still corrupt after it, which a recomputed CRC would hide. Costs a CRC of as
    many zeros as bytes follow.
    """
    # The register that started at zero and has read the changed bytes; zeros are then all that it still has to read.
    register = _compute(change, _ZERO_REGISTER)
    while bytes_after:
        zeros = _ZEROS[:bytes_after]
        register = _compute(zeros, register)
        bytes_after -= len(zeros)
    return crc ^ register ^ _MASK


_MASK = _ZERO_REGISTER = 0xFFFFFFFF
"""A CRC is its register with all bits turned, at the beginning and at the end."""
_ZEROS = memoryview(bytes(64 * 1024))
