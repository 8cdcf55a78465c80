"""Where the reading of a file stands, and by what the file is known again. Pure: values and their JSON.

A position holds all that the same records come from a second time: the name that the file had first, the number of the next
line, the clock when it was read (lines without a time get it).
"""

import json
import zlib
from typing import NamedTuple

from ..source import Position
from .head import MOST_BYTES, NOTHING, Head

IGNORED = 1 << 60
"""The offset of compressed files that were there before a section with start = "end" began."""


class Place(NamedTuple):
    """A place in one file."""

    path: str
    """The name under which the file was met first; its quarantine records name it."""
    device: int
    inode: int
    """The file that held the content when it was last read: a compressed copy may have followed."""
    head_bytes: int
    head_crc: int
    """The fingerprint: CRC-32 of the content's first `head_bytes`."""
    offset: int
    """Bytes of (decompressed) content before this place."""
    line: int | None
    """Lines before this place; None if they were not counted."""
    crc_from: int
    content_crc: int
    """CRC-32 of the content in [`crc_from`, `offset`)."""
    previous_ms: int | None
    """The event time of the last line that was parsed."""
    at_ms: int
    """When it was read up to here."""
    is_inside_long_line: bool
    """The rest of a line that was too long follows; its head is in quarantine."""

    def to_position(self) -> Position:
        return Position(json.dumps(self, separators=(",", ":")))

    @classmethod
    def from_position(cls, position: Position) -> "Place":
        return cls(*json.loads(position))


def new_place(path: str, key: tuple[int, int], *, offset: int = 0, is_inside_line: bool = False) -> Place:
    """Return where a file begins to be read."""
    return Place(
        path=path,
        device=key[0],
        inode=key[1],
        head_bytes=NOTHING.length,
        head_crc=NOTHING.crc,
        offset=offset,
        line=None if offset else 0,
        crc_from=offset,
        content_crc=0,
        previous_ms=None,
        at_ms=0,
        is_inside_long_line=is_inside_line,
    )


def holds(first: bytes, head: Head, place: Place) -> bool:
    """Return whether a file that begins with `first` may hold what was read up to `place`: sure where that is short."""
    if place.offset >= IGNORED or not head.is_of(first):
        return place.offset >= IGNORED
    if place.offset > len(first):
        return len(first) == MOST_BYTES
    return zlib.crc32(memoryview(first)[place.crc_from : place.offset]) == place.content_crc
