"""Finds whole batches in a broker's files, and makes some of them unreadable while it is stopped. For the drills.

Reads batch headers with none of the broker's code: the report of the damage must not depend on the code under test. Writes only
into the files of a broker that does not run. Layout of a partition: docs/FORMATS.md.
"""

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...wire.batch.record_batch import crc_matches

HOUR_MS = 3_600_000

# base offset 8 · length 4 · leader epoch 4 · magic 1 · crc 4 · attributes 2 · last offset delta 4 · base timestamp 8 ·
# max timestamp 8 · producer id 8 · producer epoch 2 · base sequence 4 · record count 4
_HEADER = struct.Struct(">qiibIhiqqqhii")
_TIMESTAMPS_BOUNDED = 0x0080
_PREFIX_BYTES = 12
_FLIPPED_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """One batch in a segment file."""

    path: Path
    position: int
    size_bytes: int
    partition: int
    base_offset: int
    next_offset: int
    record_count: int
    base_sequence: int
    """Its producer's sequence number; −1 without one."""
    crc: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    is_bounded: bool
    """Every record's time is between the header's two timestamps."""
    is_sound: bool
    """Its CRC matches."""

    @property
    def segment_base(self) -> int:
        """The offset at which its segment begins."""
        return int(self.path.stem)

    @property
    def end_position(self) -> int:
        """Where the next batch begins in the file."""
        return self.next_offset - self.segment_base

    def window_start_ms(self, window_ms: int) -> int | None:
        """Return the window of all its records, from the header alone; None if the header does not show it."""
        first, last = (at - at % window_ms for at in (self.first_timestamp_ms, self.max_timestamp_ms))
        return first if self.is_bounded and first == last else None


def stored_batches(data: Path, topic: str) -> list[StoredBatch]:
    """Return every batch of the topic's partitions under a broker's data folder, sorted by partition and offset."""
    found: list[StoredBatch] = []
    for folder in sorted(data.glob(f"{topic}-*")):
        number = folder.name[len(topic) + 1 :]
        if folder.is_dir() and number.isdigit():
            for path in sorted(folder.glob("*.log")):
                found += _walk(path, int(number))
    return found


def _walk(path: Path, partition: int) -> list[StoredBatch]:
    segment_base = int(path.stem)
    raw = path.read_bytes()
    found: list[StoredBatch] = []
    position = 0
    while position + _HEADER.size <= len(raw):
        base, length, _, magic, crc, attributes, delta, first_ms, max_ms, _, _, sequence, count = _HEADER.unpack_from(
            raw, position
        )
        size_bytes = _PREFIX_BYTES + length
        advance = max(size_bytes, count)
        first = segment_base + position + advance - count
        if magic != 2 or (base, delta) != (first, count - 1) or length <= 0 or position + size_bytes > len(raw):
            break
        found.append(
            StoredBatch(
                path=path,
                position=position,
                size_bytes=size_bytes,
                partition=partition,
                base_offset=base,
                next_offset=base + delta + 1,
                record_count=count,
                base_sequence=sequence,
                crc=crc,
                first_timestamp_ms=first_ms,
                max_timestamp_ms=max_ms,
                is_bounded=bool(attributes & _TIMESTAMPS_BOUNDED),
                is_sound=crc_matches(raw, position, size_bytes),
            )
        )
        position += advance
    return found


def choose(batches: Sequence[StoredBatch], *, count: int, window_ms: int) -> list[StoredBatch]:
    """Return at most `count` batches to damage, each in another hour. If there are two hours or more, at least one stays whole.

    Only from the middle of a partition: at its end a bad batch is a torn tail, which recovery rightly cuts.
    """
    ends = {
        partition: [one for one in batches if one.partition == partition][-2:] for partition in {one.partition for one in batches}
    }
    by_hour: dict[int, list[StoredBatch]] = {}
    for one in batches:
        if one.is_sound and one not in ends[one.partition] and one.window_start_ms(window_ms) is not None:
            by_hour.setdefault(one.max_timestamp_ms // HOUR_MS, []).append(one)
    every_hour = {one.max_timestamp_ms // HOUR_MS for one in batches}
    hours = sorted(by_hour)
    most = min(count, len(hours), max(1, len(every_hour) - 1))
    if not most:
        return []
    picked = [hours[(2 * at + 1) * len(hours) // (2 * most)] for at in range(most)]
    return [max(by_hour[hour], key=lambda one: one.record_count) for hour in picked]


def damage(batch: StoredBatch) -> None:
    """Flip bytes in the middle of the batch's payload on disk. The header stays, so its CRC no longer matches."""
    payload_bytes = batch.size_bytes - _HEADER.size
    at = batch.position + _HEADER.size + max(0, payload_bytes - _FLIPPED_BYTES) // 2
    with batch.path.open("r+b") as file:
        file.seek(at)
        flipped = bytes(byte ^ 0xFF for byte in file.read(min(_FLIPPED_BYTES, payload_bytes)))
        file.seek(at)
        file.write(flipped)
        file.flush()
        os.fsync(file.fileno())
