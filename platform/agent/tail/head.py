"""The fingerprint of a file: a checksum over its first bytes. Pure.

Its length is one of a few, so that files can be looked up by it; it grows with a young file.
"""

import zlib
from typing import NamedTuple

LENGTHS = (1024, 256, 64, 16, 4, 1)
MOST_BYTES = LENGTHS[0]


class Head(NamedTuple):
    """CRC-32 of the first `length` bytes."""

    length: int
    crc: int

    def is_of(self, content: bytes) -> bool:
        """Return whether a file that begins with `content` has this head."""
        return len(content) >= self.length and zlib.crc32(content[: self.length]) == self.crc


NOTHING = Head(0, 0)
"""The head of an empty file, and of every file."""


def head_of(content: bytes) -> Head:
    """Return the longest head of a file that begins with `content`."""
    for length in LENGTHS:
        if len(content) >= length:
            return Head(length, zlib.crc32(content[:length]))
    return NOTHING


def heads_of(content: bytes) -> list[Head]:
    """Return every head that the file may have had while it grew, the longest first."""
    return [Head(length, zlib.crc32(content[:length])) for length in LENGTHS if len(content) >= length]
