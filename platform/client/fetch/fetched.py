"""The result of a fetch: whole, checked batches, and the ranges that failed the check. Pure: bytes in, values out.

A bad range ends where the next sound batch begins. The length and the offsets of a bad batch are used only if no sound batch
follows.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from ...runtime.native import native
from ...wire.batch.record_batch import HEADER_SIZE, BatchHeader, crc_matches, read_header
from ...wire.errors import CorruptBatch
from ..errors import ClientError

_LARGEST_OFFSET = (1 << 63) - 1


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptRange:
    """Offsets [from_offset, to_offset) that exist, or existed, and cannot be read."""

    from_offset: int
    to_offset: int
    reason: str
    is_expired: bool = False
    """The log begins behind them now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """One partition in the result of a fetch. Batches are views into the response's own memory and may be kept."""

    topic: str
    partition: int
    requested_offset: int
    high_watermark: int
    log_start_offset: int
    batches: list[tuple[BatchHeader, memoryview]] = field(default_factory=list)
    """Sorted by offset; the first may begin before `requested_offset`. A batch begins where the previous one ended, or at its own
    `position` if that is greater. In the second case the offsets between are in `corrupt`, or the broker served nothing there.
    """
    corrupt: list[CorruptRange] = field(default_factory=list)
    last_stable_offset: int = -1
    """Below it no transaction is open; -1 where the broker knows of none."""
    aborted: tuple[tuple[int, int], ...] = ()
    """Aborted transactions among the batches as (producer id, first offset), if fetched read committed."""
    error: ClientError | None = None
    """A retriable failure of this partition alone, such as a moving leader. The next fetch requests its metadata again."""

    @property
    def next_offset(self) -> int:
        """Return where to continue: after everything in this result."""
        ends = [header.next_offset for header, _ in self.batches[-1:]] + [bad.to_offset for bad in self.corrupt[-1:]]
        return max([self.requested_offset, *ends])


class Parsed(NamedTuple):
    """A partition's records, split into batches and bad ranges."""

    batches: list[tuple[BatchHeader, memoryview]]
    corrupt: list[CorruptRange]
    tail: CorruptRange | None
    """A bad batch with no sound one after it in this response. Its end is the claimed one, or equal to its start if it claims
    none.
    """


def parse(records: memoryview | bytes | None, requested_offset: int) -> Parsed:
    """Return a Fetch response's whole batches whose CRC matches, and the bad ranges. A truncated last batch is not an error."""
    view = memoryview(records or b"")
    batches: list[tuple[BatchHeader, memoryview]] = []
    corrupt: list[CorruptRange] = []
    bad: _Bad | None = None
    claimed = 0
    expected = requested_offset
    at, end = 0, len(view)
    while end - at >= HEADER_SIZE:
        if native is not None and bad is None and expected <= _LARGEST_OFFSET:
            # The walk over sound batches in C, without the interpreter's lock. Where it stops, the steps below decide.
            at, expected = native.sound_batches(view, at, expected, BatchHeader, batches)
            if end - at < HEADER_SIZE:
                break
        header = _sound(view, at, expected)
        if isinstance(header, str):
            bad = bad or (expected, at, header)
            claimed = _claimed_end(view, at)
            at = _next_sound(view, at + 1, expected)
            continue
        after = at + header.size_bytes
        if after > end and (batches or bad is not None):
            break
        if after > end:
            # A broker sends at least one whole batch. If the first one is truncated, its length is wrong.
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
"""The offset at which a bad range begins, its byte in the response, and the reason."""


def _bad_end(bad: _Bad, claimed: int, next_sound: BatchHeader, at: int) -> int:
    """Return the offset at which a bad range ends, if a sound batch follows at byte `at` of the response.

    In a byte-addressed log this is the sound batch's position, and at most as many offsets as there are bytes between the two. In
    a dense log it is the sound batch's base offset, which the bad batch most likely `claimed` as its end.
    """
    from_offset, from_byte, _ = bad
    is_dense = claimed == next_sound.base_offset or not from_offset < next_sound.position <= from_offset + at - from_byte
    return next_sound.base_offset if is_dense else next_sound.position


def _sound(view: memoryview, at: int, expected: int) -> BatchHeader | str:
    """Return the header of the batch at byte `at`, a sound or a truncated one; why it is bad for another."""
    try:
        header = read_header(view, at)
    except CorruptBatch as error:
        return str(error)
    if at + header.size_bytes > len(view):
        return header
    if not crc_matches(view, at, header.size_bytes):
        return f"the CRC of the batch at offset {header.base_offset} does not match its bytes"
    if header.next_offset <= expected and at:
        return f"the batch at offset {header.base_offset} ends before offset {expected}, where the one before it ended"
    return header


def _claimed_end(view: memoryview, at: int) -> int:
    try:
        return read_header(view, at).next_offset
    except CorruptBatch:
        return 0


def _next_sound(view: memoryview, at: int, expected: int) -> int:
    """Return the byte, from `at` on, where a whole batch with a matching CRC begins; the end of the view if there is none."""
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
