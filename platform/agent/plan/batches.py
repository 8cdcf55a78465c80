"""Which records of a chunk go into which batch. Pure.

A batch holds records of one partition and one window. Within a partition, windows follow each other and records of a window keep
their order: a thread whose event times do not go back finds its events in order. (A batch a border, as the SDK makes them, would
be a batch a record where the times of a file jump to and fro.)
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ...wire.batch.batch_header import CRC_AT, CRC_COVERS_FROM
from ...wire.batch.crc32c import crc32c
from .entries import Entries
from .events import NO_KEY, BatchHead

_NUMBERS = struct.Struct(">qhi")
_NUMBERS_AT = 43


class PlannedBatch(NamedTuple):
    """Records that are to be sent together, by their places in the chunk's entries."""

    partition: int
    window_start_ms: int
    picks: bytes
    record_count: int


def plan_batches(entries: Entries, partitions: Sequence[int], *, batch_bytes: int, spread: int) -> list[PlannedBatch]:
    """Return the batches of `entries`, in the order in which a partition's are to be sent. `partitions` ascend.

    Records with a key go to their key's partition; those without fill batch after batch, beginning at the partition of `spread`.
    A record larger than `batch_bytes` is a batch of its own.
    """
    planned: list[PlannedBatch] = []
    gathered = entries.events.gathered(partition_count=len(partitions), batch_bytes=batch_bytes, prefix_bytes=len(entries.prefix))
    for window, index, picks, count in gathered:
        if index == NO_KEY:
            index = spread % len(partitions)
            spread += 1
        planned.append(PlannedBatch(partitions[index], window, picks, count))
    return planned


def build(entries: Entries, picks: bytes, head: BatchHead) -> tuple[bytes, int, int]:
    """Return a batch of the entries at these places as far as they exist, the CRC in its header, and how many they are."""
    content, count = entries.events.batch(picks, entries.prefix, head)
    return content, int.from_bytes(content[CRC_AT : CRC_AT + 4], "big"), count


def renumbered(content: bytes, *, producer_id: int, producer_epoch: int, first_sequence: int) -> tuple[bytes, int]:
    """Return the batch under other numbers, and its CRC."""
    changed = bytearray(content)
    _NUMBERS.pack_into(changed, _NUMBERS_AT, producer_id, producer_epoch, first_sequence)
    crc = crc32c(memoryview(changed)[CRC_COVERS_FROM:])
    changed[CRC_AT : CRC_AT + 4] = crc.to_bytes(4, "big")
    return bytes(changed), crc
