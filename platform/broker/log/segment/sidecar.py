"""The content of a sidecar, and its bytes. Pure. A sidecar is disposable: the segment holds everything that it says.

It describes the segment from its base to an offset where a batch ends: all of a closed segment, a part of one that has grown
since. Little-endian, in this order:

    4  "HRIX"                         8  last append, ms
    4  layout, 1                      8  where its last batch begins, -1 none
    8  base offset                    4  that batch's CRC
    8  indexed up to this offset      4  1: the producers below are those at that offset, 0: it knows none
    8  bytes of the file up to there  4  count of batch starts  s
    8  flushed up to this offset      4  count of broken ones   b
    8  inode of the segment's file    4  count of bad ranges    r
   16  boot id of the system          4  bytes of the producers p
    8  first append, ms               4  interval of the starts

    s x 8 offsets · s x 8 peaks, ms · b x 8 offsets · r x (8 from, 8 to, 2 length, reason in UTF-8)
    p: producers, the longest idle first: 8 id, 2 epoch, 2 count of batches, each batch 4 sequence, 4 count, 8 base offset
    4  CRC-32C of all before it
"""

import struct
import sys
from array import array
from dataclasses import dataclass

from ....wire.batch.crc32c import crc32c
from ..producer_state import Snapshot
from .bad_range import BadRange
from .batch_starts import BatchStarts

_MAGIC = b"HRIX"
_LAYOUT = 1
_HEAD = struct.Struct("<4sIqqqqQ16sqqqIIIIIII")
_CRC = struct.Struct("<I")
_BAD = struct.Struct("<qqH")
_PRODUCER = struct.Struct("<qhH")
_BATCH = struct.Struct("<iiq")


class SidecarDamaged(ValueError):
    """These bytes are not a whole sidecar. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """Offsets are the log's; half-open."""

    base_offset: int
    indexed_to: int
    """The sidecar describes everything before this offset. A batch and the hole after it end here."""
    size_bytes: int
    """Where the last batch before `indexed_to` ends in the file."""
    flushed_to: int
    """Everything before this offset was on disk when the sidecar was written."""
    inode: int
    boot_id: bytes
    first_append_ms: int
    last_append_ms: int
    last_batch_offset: int
    last_batch_crc: int
    starts: BatchStarts
    bad_ranges: tuple[BadRange, ...]
    producers: Snapshot | None
    """The producers at `indexed_to`, None when they were not known."""

    @property
    def is_flushed(self) -> bool:
        """Return whether everything that it describes was on disk when it was written."""
        return self.flushed_to >= self.indexed_to

    def encode(self) -> bytes:
        """Return the file's bytes."""
        offsets, peaks, breaks = self.starts.arrays()
        bad = b"".join(_bad_bytes(bad) for bad in self.bad_ranges)
        producers = b"" if self.producers is None else _producer_bytes(self.producers)
        head = _HEAD.pack(
            _MAGIC,
            _LAYOUT,
            self.base_offset,
            self.indexed_to,
            self.size_bytes,
            self.flushed_to,
            self.inode,
            self.boot_id,
            self.first_append_ms,
            self.last_append_ms,
            self.last_batch_offset,
            self.last_batch_crc,
            self.producers is not None,
            len(offsets),
            len(breaks),
            len(self.bad_ranges),
            len(producers),
            self.starts.interval_bytes,
        )
        body = b"".join((head, _little(offsets), _little(peaks), _little(breaks), bad, producers))
        return body + _CRC.pack(crc32c(body))


def decode(data: bytes) -> Sidecar:
    """Return what `data` says. Raises `SidecarDamaged`."""
    if len(data) < _HEAD.size + _CRC.size or not data.startswith(_MAGIC):
        raise SidecarDamaged("it does not begin as a sidecar does")
    body = memoryview(data)[: -_CRC.size]
    if crc32c(body) != _CRC.unpack_from(data, len(body))[0]:
        raise SidecarDamaged("its CRC does not hold")
    (_, layout, base, described, size, flushed, inode, boot_id, first_ms, last_ms, last_offset, last_crc, knows, *counts) = (
        _HEAD.unpack_from(body)
    )
    if layout != _LAYOUT:
        raise SidecarDamaged(f"it is of layout {layout} and only {_LAYOUT} is known")
    start_count, break_count, bad_count, producer_bytes, interval = counts
    try:
        at = _HEAD.size
        arrays = []
        for count in (start_count, start_count, break_count):
            arrays.append(_array(body[at : at + 8 * count]))
            at += 8 * count
        bad_ranges = []
        for _ in range(bad_count):
            from_offset, to_offset, length = _BAD.unpack_from(body, at)
            at += _BAD.size
            bad_ranges.append(BadRange(from_offset, to_offset, str(body[at : at + length], "utf-8")))
            at += length
        if len(body) != at + producer_bytes or [len(a) for a in arrays] != [start_count, start_count, break_count]:
            raise SidecarDamaged("its parts are not as long as it says")
        producers = _producers(body[at:]) if knows else None
        starts = BatchStarts.of_arrays(interval, *arrays)
    except (struct.error, ValueError) as error:
        raise SidecarDamaged(f"its parts cannot be read: {error}") from error
    return Sidecar(
        base_offset=base,
        indexed_to=described,
        size_bytes=size,
        flushed_to=flushed,
        inode=inode,
        boot_id=boot_id,
        first_append_ms=first_ms,
        last_append_ms=last_ms,
        last_batch_offset=last_offset,
        last_batch_crc=last_crc,
        starts=starts,
        bad_ranges=tuple(bad_ranges),
        producers=producers,
    )


def _little(numbers: "array[int]") -> bytes:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _array(data: memoryview) -> "array[int]":
    numbers = array("q")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _bad_bytes(bad: BadRange) -> bytes:
    reason = bad.reason.encode()[:1_000].decode(errors="ignore").encode()
    return _BAD.pack(bad.from_offset, bad.to_offset, len(reason)) + reason


def _producer_bytes(producers: Snapshot) -> bytes:
    parts = []
    for producer_id, (epoch, batches) in producers:
        parts.append(_PRODUCER.pack(producer_id, epoch, len(batches)))
        parts += (_BATCH.pack(*batch) for batch in batches)
    return b"".join(parts)


def _producers(data: memoryview) -> Snapshot:
    found, at = [], 0
    while at < len(data):
        producer_id, epoch, count = _PRODUCER.unpack_from(data, at)
        at += _PRODUCER.size
        if not count:
            raise SidecarDamaged("a producer without a batch")
        batches = tuple(_BATCH.unpack_from(data, at + number * _BATCH.size) for number in range(count))
        at += count * _BATCH.size
        found.append((producer_id, (epoch, batches)))
    return tuple(found)
