"""Which records of a chunk go into which batch. Pure.

A batch holds records of one partition and one window. Within a partition, windows follow each other and records of a window keep
their order: a thread whose event times do not go back finds its events in order. (A batch a border, as the SDK makes them, would
be a batch a record where the times of a file jump to and fro.)
"""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...audit.model.windows import WINDOW_MS
from ...client.producer.partitioner import partition_for_key
from ...wire.batch.batch_header import CRC_AT, CRC_COVERS_FROM
from ...wire.batch.compression import Codec
from ...wire.batch.crc32c import crc32c
from ...wire.batch.record_batch import BatchBuilder
from ...wire.varint import unsigned
from .entries import Entry, window_of

RECORD_OVERHEAD_BYTES = 24
"""Upper bound of a record's bytes in a batch besides key and value."""
MOST_KEYS_REMEMBERED = 10_000


_NUMBERS = struct.Struct(">qhi")
_NUMBERS_AT = 43


class PlannedBatch(NamedTuple):
    """Records that are to be sent together, by their places in the chunk's entries."""

    partition: int
    window_start_ms: int
    picks: tuple[int, ...]


def plan_batches(entries: Sequence[Entry], partitions: Sequence[int], *, batch_bytes: int, spread: int) -> list[PlannedBatch]:
    """Return the batches of `entries`, in the order in which a partition's are to be sent.

    Records with a key go to their key's partition; those without fill batch after batch, beginning at the partition of `spread`.
    A record larger than `batch_bytes` is a batch of its own.
    """
    by_key: dict[bytes, int] = {}
    groups: dict[tuple[int, int], list[int]] = {}
    """(window, partition, or -1 for records without a key) → places."""
    known_window, known_end = 0, 0
    for at, entry in enumerate(entries):
        timestamp_ms, key, _ = entry
        if not known_window <= timestamp_ms < known_end:
            known_window = window_of(entry)
            known_end = known_window + (WINDOW_MS if timestamp_ms >= 0 else 0)
        if key is None:
            partition = -1
        elif (found := by_key.get(key)) is not None:
            partition = found
        else:
            if len(by_key) >= MOST_KEYS_REMEMBERED:
                by_key.clear()
            partition = by_key[key] = partitions[partition_for_key(key, len(partitions))]
        window = known_window
        group = groups.get((window, partition))
        if group is None:
            group = groups[window, partition] = []
        group.append(at)
    planned: list[PlannedBatch] = []
    for (window, partition), places in sorted(groups.items()):
        for picks in _cut(entries, places, batch_bytes):
            where = partition
            if where < 0:
                where = partitions[spread % len(partitions)]
                spread += 1
            planned.append(PlannedBatch(where, window, picks))
    return planned


def _cut(entries: Sequence[Entry], places: Sequence[int], batch_bytes: int) -> Iterable[tuple[int, ...]]:
    start, size_bytes = 0, 0
    for number, at in enumerate(places):
        _, key, value = entries[at]
        one = RECORD_OVERHEAD_BYTES + len(value) + (len(key) if key is not None else 0)
        if size_bytes and size_bytes + one > batch_bytes:
            yield tuple(places[start:number])
            start, size_bytes = number, 0
        size_bytes += one
    yield tuple(places[start:])


def build(
    entries: Iterable[Entry], *, codec: Codec, producer_id: int, producer_epoch: int, first_sequence: int
) -> tuple[bytes, int]:
    """Return a batch's bytes, and the CRC in its header."""
    builder = BatchBuilder(codec, producer_id, producer_epoch, first_sequence)
    append = builder.append
    for entry in entries:
        append(*entry)
    content = builder.build()
    return content, int.from_bytes(content[CRC_AT : CRC_AT + 4], "big")


def renumbered(content: bytes, *, producer_id: int, producer_epoch: int, first_sequence: int) -> tuple[bytes, int]:
    """Return the batch under other numbers, and its CRC."""
    changed = bytearray(content)
    _NUMBERS.pack_into(changed, _NUMBERS_AT, producer_id, producer_epoch, first_sequence)
    crc = crc32c(memoryview(changed)[CRC_COVERS_FROM:])
    changed[CRC_AT : CRC_AT + 4] = crc.to_bytes(4, "big")
    return bytes(changed), crc


def pack_picks(picks: Sequence[int]) -> bytes:
    """Return rising places as bytes: pairs of varints (places left out, places taken)."""
    out: list[bytes] = []
    expected, start = 0, 0
    for number in range(1, len(picks) + 1):
        if number == len(picks) or picks[number] != picks[number - 1] + 1:
            out += (unsigned(picks[start] - expected), unsigned(number - start))
            expected, start = picks[number - 1] + 1, number
    return b"".join(out)


def unpack_picks(packed: bytes) -> tuple[int, ...]:
    """Return the places that `pack_picks` has packed."""
    picks: list[int] = []
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
        picks.extend(range(at + left_out, at + left_out + taken))
        at += left_out + taken
    return tuple(picks)
