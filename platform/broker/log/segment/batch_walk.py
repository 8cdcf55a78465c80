"""Walk through a segment's bytes: verify each batch and find the next whole batch behind damage. Cuts nothing.

A batch is whole when its header names the position at which it stands (`BatchHeader.position`), its last offset delta is its
record count - 1, it ends within the file, and its CRC is right. Behind damage the walk continues at the next whole batch, which
proves that the damage is in the *middle*. When no whole batch follows, the caller decides: a torn tail in the last segment, a bad
range in any other. The four bytes of the leader epoch are under no CRC and are not checked. Source: rules of the log; decision 1.
"""

import os
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from ....wire.batch.batch_header import MAGIC, MAGIC_AT
from ....wire.batch.crc32c import crc32c
from ....wire.batch.record_batch import HEADER_SIZE, LENGTH_PREFIX_SIZE, BatchHeader, advance_of, read_header
from ....wire.errors import CorruptBatch
from .bad_range import BadRange
from .whole_write import write_all

WINDOW_BYTES = 256 * 1024
NO_LIMIT = 1 << 63
_CRC_COVERS_FROM = 21
_CHECKED = struct.Struct(">qi4xbI2xi30xi")
"""Base offset, length, magic, CRC, last offset delta, count of records."""
_MAGIC_BYTE = bytes((MAGIC,))
_BLOCK_BYTES = 64 * 1024
"""How many bytes the search for a header reads at once."""


class Unresolved(NamedTuple):
    """No whole batch was found from here to the end of the file."""

    from_offset: int
    reason: str


def walk(
    fd: int, base_offset: int, limit_offset: int = NO_LIMIT, *, from_offset: int | None = None, rewrites: bool = False
) -> Iterator[BatchHeader | BadRange | Unresolved]:
    """Yield what a segment file holds, in order: headers of whole batches, bad ranges between them, `Unresolved` as the last.

    `base_offset` is the segment's, `limit_offset` the next segment's. A batch begins at `from_offset` (None: the segment's base).
    Reads the file from there on once, damaged parts twice, with a bounded buffer. `rewrites`: exactly the bytes that are checked
    are also written back to their place, for the next flush. Raises OSError when the file cannot be read, so that an unreadable
    disk is not taken for damage that might be cut.
    """
    window = _Window(fd, os.fstat(fd).st_size, rewrites=rewrites)
    position = 0 if from_offset is None else from_offset - base_offset
    while position < window.file_bytes and base_offset + position < limit_offset:
        found = _whole_batch(window, base_offset, position, limit_offset)
        if isinstance(found, BatchHeader):
            yield found
            position += advance_of(found.size_bytes, found.record_count)
            continue
        resume = _next_whole_batch(window, base_offset, position + 1, limit_offset)
        if resume is None:
            yield Unresolved(base_offset + position, found)
            return
        yield BadRange(base_offset + position, base_offset + resume, found)
        position = resume


def fault_at(fd: int, base_offset: int, offset: int, limit_offset: int) -> tuple[str, int | None] | None:
    """Return what is wrong with the batch at `offset`, and where the next whole one begins before `limit_offset` (None: nowhere).

    None when the batch is whole. Raises OSError.
    """
    window = _Window(fd, os.fstat(fd).st_size)
    found = _whole_batch(window, base_offset, offset - base_offset, NO_LIMIT)
    if isinstance(found, BatchHeader):
        return None
    resume = _next_whole_batch(window, base_offset, offset - base_offset + 1, limit_offset)
    return found, None if resume is None else base_offset + resume


def whole_length(batches: memoryview, offset: int) -> int:
    """Return how many bytes at the front of `batches`, which begin at `offset`, are whole batches without a hole.

    Hot until a segment is verified: 1.3 µs a batch, plus its CRC.
    """
    at, length = 0, len(batches)
    while length - at >= HEADER_SIZE:
        base_offset, size, magic, crc, delta, count = _CHECKED.unpack_from(batches, at)
        size += LENGTH_PREFIX_SIZE
        end = at + size
        advance = size if size > count else count
        if base_offset != offset + advance - count or magic != MAGIC or size < HEADER_SIZE or end > length or count < 1:
            break
        if delta != count - 1 or crc32c(batches[at + _CRC_COVERS_FROM : end]) != crc:
            break
        offset += advance
        at = end
        if advance != size:
            break
    return at


class _Window:
    """A file read forward through one bounded buffer."""

    def __init__(self, fd: int, file_bytes: int, *, rewrites: bool = False) -> None:
        self._fd = fd
        self.file_bytes = file_bytes
        self._rewrites = rewrites
        self._buffer = memoryview(bytearray(WINDOW_BYTES))
        self._from = 0
        self._to = 0

    def view(self, position: int, length: int) -> memoryview:
        """Return `length` bytes (at most a window) from `position`, fewer at the end of the file. Valid until the next call."""
        if position < self._from or position + length > self._to:
            self._fill(position)
        start = position - self._from
        return self._buffer[start : min(start + length, self._to - self._from)]

    def crc(self, position: int, length: int) -> int:
        """Return the CRC-32C of these bytes, in any length."""
        value = 0
        while length > 0:
            part = self.view(position, min(length, WINDOW_BYTES))
            if not part:
                break
            value = crc32c(part, value)
            position += len(part)
            length -= len(part)
        return value

    def _fill(self, position: int) -> None:
        filled = 0
        while filled < WINDOW_BYTES:
            count = os.preadv(self._fd, [self._buffer[filled:]], position + filled)
            if count == 0:
                break
            filled += count
        if self._rewrites:
            write_all(self._fd, self._buffer[:filled], position)
        self._from, self._to = position, position + filled


def _whole_batch(window: _Window, base_offset: int, position: int, limit_offset: int) -> BatchHeader | str:
    """Return the header of the whole batch at `position`, or what is wrong. Once per batch in recovery: cheap checks first."""
    offset = base_offset + position
    try:
        header = read_header(window.view(position, HEADER_SIZE))
    except CorruptBatch as error:
        return str(error)
    size_bytes = header.size_bytes
    if header.record_count < 1 or not header.is_dense:
        return (
            f"the batch at offset {offset} has {header.record_count} records and last offset delta {header.last_offset_delta}, "
            "which no producer writes"
        )
    if header.position != offset:
        return f"the batch at offset {offset} says that it belongs at {header.position}"
    if position + size_bytes > window.file_bytes:
        return f"the batch at offset {offset} says {size_bytes} bytes and {window.file_bytes - position} are in the file"
    advance = advance_of(size_bytes, header.record_count)
    if offset + advance > limit_offset:
        return f"the batch at offset {offset} reaches over {limit_offset}, where the next segment begins"
    if window.crc(position + _CRC_COVERS_FROM, size_bytes - _CRC_COVERS_FROM) != header.crc:
        return f"the batch at offset {offset} fails its CRC"
    return header


def _next_whole_batch(window: _Window, base_offset: int, position: int, limit_offset: int) -> int | None:
    """Return the position of the first whole batch at or after `position`, None when there is none.

    Looks for headers that name the position at which they stand. Zeros and text are skipped at the speed of `bytes.find`, because
    every header has a magic byte; other bytes at the speed of `re`.
    """
    last = min(window.file_bytes - HEADER_SIZE, limit_offset - base_offset - 1)
    end_offset = base_offset + window.file_bytes
    while position <= last:
        in_block = min(_BLOCK_BYTES, last - position + 1)
        block = bytes(window.view(position, in_block + HEADER_SIZE))
        for at in _candidates(block, in_block, base_offset + position, end_offset):
            if isinstance(_whole_batch(window, base_offset, position + at, limit_offset), BatchHeader):
                return position + at
        position += in_block
    return None


def _candidates(block: bytes, length: int, offset: int, end_offset: int) -> Iterator[int]:
    """Yield the places before `length` in `block`, which begins at `offset`, where a header names its own position."""
    if block.find(_MAGIC_BYTE, MAGIC_AT) < 0:
        return
    end = length + MAGIC_AT
    for at in sorted(at for pattern in _patterns(offset, end_offset) for at in _matches(pattern, block, end)):
        try:
            if read_header(block, at).position == offset + at:
                yield at
        except CorruptBatch:
            continue


def _matches(pattern: re.Pattern[bytes], block: bytes, end: int) -> Iterator[int]:
    """Yield where `pattern` matches before `end`, overlapping matches too."""
    found = pattern.search(block, 0, end)
    while found is not None:
        yield found.start()
        found = pattern.search(block, found.start() + 1, end)


def _patterns(offset: int, end_offset: int) -> Iterator[re.Pattern[bytes]]:
    """Yield patterns of the first 17 bytes of headers with base offsets in [offset, end_offset], one for each 4 GiB."""
    for upper in range(offset >> 32, (end_offset >> 32) + 1):
        yield re.compile(b"(?s)" + re.escape(upper.to_bytes(4, "big")) + b".{4}[\\x00-\\x7f].{7}" + _MAGIC_BYTE)
