"""What a fetch brought: whole, checked batches, and the ranges that failed the check. Pure: bytes in, values out.

A range that failed ends where the next sound batch begins: the length and offsets of a bad batch are not believed while better
is to be had.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from ...wire.batch.record_batch import HEADER_SIZE, BatchHeader, crc_matches, read_header
from ...wire.errors import CorruptBatch
from ..errors import ClientError


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptRange:
    """Offsets [from_offset, to_offset) that hold something, and nothing that can be read."""

    from_offset: int
    to_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """One partition's part of a fetch. Batches are views into the answer's own memory and may be kept."""

    topic: str
    partition: int
    requested_offset: int
    high_watermark: int
    log_start_offset: int
    batches: list[tuple[BatchHeader, memoryview]] = field(default_factory=list)
    """In order; the first may begin before `requested_offset`. The offsets of one begin where those before it ended, or at its
    own `position` where that is greater: then what lies between is in `corrupt`, or the broker gives nothing of it.
    """
    corrupt: list[CorruptRange] = field(default_factory=list)
    error: ClientError | None = None
    """A passing failure of this partition alone (its leader moves, say); fetching again asks anew."""

    @property
    def next_offset(self) -> int:
        """Return where to go on: behind everything that was brought."""
        ends = [header.next_offset for header, _ in self.batches[-1:]] + [bad.to_offset for bad in self.corrupt[-1:]]
        return max([self.requested_offset, *ends])


class Parsed(NamedTuple):
    """A partition's records, taken apart."""

    batches: list[tuple[BatchHeader, memoryview]]
    corrupt: list[CorruptRange]
    tail: CorruptRange | None
    """A bad batch with no sound one behind it in this answer; its end is only what it claims, equal to its start where it claims
    none.
    """


def parse(records: memoryview | bytes | None, requested_offset: int) -> Parsed:
    """Return the whole batches of a fetch answer whose CRC holds, and where others lie. A cut last batch is no fault."""
    view = memoryview(records or b"")
    batches: list[tuple[BatchHeader, memoryview]] = []
    corrupt: list[CorruptRange] = []
    bad: _Bad | None = None
    claimed = 0
    expected = requested_offset
    at, end = 0, len(view)
    while end - at >= HEADER_SIZE:
        reason = _fault(view, at, expected)
        if reason is not None:
            bad = bad or (expected, at, reason)
            claimed = _claimed_end(view, at)
            at = _next_sound(view, at + 1, expected)
            continue
        header = read_header(view, at)
        after = at + header.size_bytes
        if after > end and (batches or bad is not None):
            break
        if after > end:
            # Brokers send at least one whole batch, so a first one that is cut has a wrong length.
            claimed = header.next_offset
            bad = (expected, at, f"the first batch claims {header.size_bytes} bytes and {end - at} came")
            at = _next_sound(view, at + 1, expected)
            continue
        if bad is not None:
            corrupt.append(CorruptRange(from_offset=bad[0], to_offset=_bad_end(bad, claimed, header, at), reason=bad[2]))
            bad = None
        batches.append((header, view[at:after]))
        expected = max(expected, header.next_offset)
        at = after
    tail = None if bad is None else CorruptRange(from_offset=bad[0], to_offset=max(bad[0], claimed), reason=bad[2])
    return Parsed(batches, corrupt, tail)


_Bad = tuple[int, int, str]
"""The offset at which a bad stretch begins, its byte in the answer, and what is wrong with it."""


def _bad_end(bad: _Bad, claimed: int, next_sound: BatchHeader, at: int) -> int:
    """Return the offset at which a bad stretch ends that is followed by a sound batch at byte `at` of the answer.

    In a byte-addressed log it is the batch's position, and at most as many offsets as bytes lie between the two; in a dense one
    it is the base offset, which the bad batch most likely `claimed` for its end.
    """
    from_offset, from_byte, _ = bad
    is_dense = claimed == next_sound.base_offset or not from_offset < next_sound.position <= from_offset + at - from_byte
    return next_sound.base_offset if is_dense else next_sound.position


def _fault(view: memoryview, at: int, expected: int) -> str | None:
    """Return why the batch at byte `at` cannot be believed; None for a sound one and for one that is merely cut."""
    try:
        header = read_header(view, at)
    except CorruptBatch as error:
        return str(error)
    if at + header.size_bytes > len(view):
        return None
    if not crc_matches(view, at, header.size_bytes):
        return f"the CRC of the batch at offset {header.base_offset} does not match its bytes"
    if header.next_offset <= expected and at:
        return f"the batch at offset {header.base_offset} ends before offset {expected}, where the one before it ended"
    return None


def _claimed_end(view: memoryview, at: int) -> int:
    try:
        return read_header(view, at).next_offset
    except CorruptBatch:
        return 0


def _next_sound(view: memoryview, at: int, expected: int) -> int:
    """Return where, from byte `at` on, a whole batch with a matching CRC begins; the end where none does."""
    data = bytes(view)
    magic = data.find(b"\x02", at + 16)
    while magic >= 0:
        start = magic - 16
        try:
            header = read_header(view, start)
            if header.base_offset >= expected and crc_matches(view, start, header.size_bytes):
                return start
        except CorruptBatch:
            pass
        magic = data.find(b"\x02", magic + 1)
    return len(view)
