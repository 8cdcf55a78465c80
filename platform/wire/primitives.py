"""The primitive types of Kafka's messages, read with bounds and written: strings, arrays, tagged fields, in both encodings.

Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482 for the compact forms. Readers take (view, at) and return
(value, at); at the end of the bytes they raise `IndexError` or `struct.error`, and the message's reader turns
that into `MalformedFrame`.
"""

import struct
from collections.abc import Iterable

from .errors import MalformedFrame
from .varint import unsigned

Body = bytes | bytearray | memoryview

SHORT = struct.Struct(">h")
INT = struct.Struct(">i")
LONG = struct.Struct(">q")

NO_TAGS = b"\x00"

MOST_COUNT = 1_000_000
"""The most elements of one array in any message: far more than any client sends. More are refused before they are read."""
MOST_TAGS = 10_000
"""The most tagged fields of one structure; Kafka's own messages have a handful."""


def read_unsigned(view: Body, at: int) -> tuple[int, int]:
    """Return an unsigned varint of at most 32 bits. Raises `MalformedFrame` beyond, `IndexError` at the end."""
    byte = view[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    for behind in range(at + 1, at + 5):
        byte = view[behind]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                break
            return value, behind + 1
        shift += 7
    raise MalformedFrame(f"a length at byte {at} does not fit 32 bits")


def read_count(view: Body, at: int, *, flexible: bool, each: int) -> tuple[int, int]:
    """Return an array's length, -1 for null. Raises `MalformedFrame` when its elements, of at least `each` bytes, do not fit."""
    if flexible:
        count, at = read_unsigned(view, at)
        count -= 1
    else:
        count, at = INT.unpack_from(view, at)[0], at + 4
    if count > MOST_COUNT:
        raise MalformedFrame(f"an array of {count} elements at byte {at}: at most {MOST_COUNT} are taken")
    if count < -1 or count * each > len(view) - at:
        raise MalformedFrame(f"an array of {count} elements at byte {at} in a message with {len(view) - at} bytes left")
    return count, at


def read_string(view: Body, at: int, *, flexible: bool) -> tuple[str | None, int]:
    """Return a string, None for null. Raises `MalformedFrame` for a wrong length and for text that is not UTF-8."""
    if flexible:
        size, at = read_unsigned(view, at)
        size -= 1
    else:
        size, at = SHORT.unpack_from(view, at)[0], at + 2
    if size == -1:
        return None, at
    end = at + size
    if size < 0 or end > len(view):
        raise MalformedFrame(f"a string of {size} bytes at byte {at} in a message of {len(view)}")
    try:
        return str(view[at:end], "utf-8"), end
    except UnicodeDecodeError as error:
        raise MalformedFrame(f"a string at byte {at} is not UTF-8: {error.reason}") from None


def read_name(view: Body, at: int, *, flexible: bool) -> tuple[str, int]:
    """Return a string that may not be null."""
    name, at = read_string(view, at, flexible=flexible)
    if name is None:
        raise MalformedFrame(f"null instead of a name, before byte {at}")
    return name, at


def read_bytes(view: memoryview, at: int, *, flexible: bool) -> tuple[memoryview | None, int]:
    """Return a view of a byte string (no copy), None for null."""
    if flexible:
        size, at = read_unsigned(view, at)
        size -= 1
    else:
        size, at = INT.unpack_from(view, at)[0], at + 4
    if size == -1:
        return None, at
    end = at + size
    if size < 0 or end > len(view):
        raise MalformedFrame(f"{size} bytes of records at byte {at} in a message of {len(view)}")
    return view[at:end], end


def read_tags(view: memoryview, at: int) -> tuple[dict[int, memoryview], int]:
    """Return the tagged fields at `at` by tag, undecoded. Raises `MalformedFrame` when they do not fit."""
    if view[at] == 0:
        return _NO_TAGS_READ, at + 1
    number, at = read_tag_count(view, at)
    fields: dict[int, memoryview] = {}
    for _ in range(number):
        tag, at = read_unsigned(view, at)
        size, at = read_unsigned(view, at)
        end = at + size
        if end > len(view):
            raise MalformedFrame(f"a tagged field {tag} of {size} bytes at byte {at} in a message of {len(view)}")
        fields[tag] = view[at:end]
        at = end
    return fields, at


_NO_TAGS_READ: dict[int, memoryview] = {}


def read_tag_count(view: Body, at: int) -> tuple[int, int]:
    """Return how many tagged fields there are. Raises `MalformedFrame` when they do not fit, or are too many."""
    number, at = read_unsigned(view, at)
    if number > MOST_TAGS:
        raise MalformedFrame(f"{number} tagged fields at byte {at}: at most {MOST_TAGS} are taken")
    if 2 * number > len(view) - at:
        raise MalformedFrame(f"{number} tagged fields at byte {at} of {len(view)}")
    return number, at


def skip_tags(view: memoryview, at: int) -> int:
    """Return the byte after the tagged fields at `at`."""
    return at + 1 if view[at] == 0 else read_tags(view, at)[1]


def ends_at(view: Body, at: int, what: str) -> None:
    """Raise `MalformedFrame` unless byte `at`, where reading stopped, is the end of the message."""
    if at != len(view):
        raise MalformedFrame(f"{what} of {len(view)} bytes ends at byte {at}: it is cut or has something behind it")


def string(text: str | None, *, flexible: bool) -> bytes:
    """Return `text` as it is written; null for None."""
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    encoded = text.encode()
    if flexible:
        return unsigned(len(encoded) + 1) + encoded
    if len(encoded) > 0x7FFF:
        raise MalformedFrame(f"a string of {len(encoded)} bytes does not fit the 32767 of this version")
    return SHORT.pack(len(encoded)) + encoded


def count(number: int, *, flexible: bool) -> bytes:
    """Return an array's length as it is written; null for -1."""
    return unsigned(number + 1) if flexible else INT.pack(number)


def tags(fields: Iterable[tuple[int, bytes]]) -> bytes:
    """Return tagged fields as they are written, in the order of their tags."""
    rising = sorted(fields)
    return unsigned(len(rising)) + b"".join(unsigned(tag) + unsigned(len(value)) + value for tag, value in rising)
