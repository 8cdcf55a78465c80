"""Tells the data of a read committed fetch from what is none: transaction markers, and batches of aborted transactions. Pure.

The broker sends both, with a list of the aborted transactions that touch the fetched range. Source: Kafka's consumer,
`CompletedFetch`; KIP-98.
"""

import heapq
import struct
from collections.abc import Iterable, Sequence

from ...wire.batch.record_batch import HEADER_SIZE, LENGTH_PREFIX_SIZE, BatchHeader, read_header
from ...wire.errors import CorruptBatch
from ...wire.varint import read_zigzag

_MARKER_KEY = struct.Struct(">hh")
_ABORT = 0
_CODEC, _CONTROL = 0x0007, 0x0020
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_LENGTH_AT, _ATTRIBUTES_AT, _COUNT_AT = 8, 21, 57


def are_data(batches: Sequence[tuple[BatchHeader, memoryview]], aborted: Iterable[tuple[int, int]]) -> list[bool]:
    """Return for each batch whether it holds records for applications. The batches are one fetch's, in order.

    `aborted`: (producer id, first offset) of the aborted transactions that reach into these offsets. Raises `CorruptBatch` for a
    marker that cannot be read.
    """
    waiting = [(first, producer_id) for producer_id, first in aborted]
    heapq.heapify(waiting)
    aborting: set[int] = set()
    found = []
    for header, batch in batches:
        while waiting and waiting[0][0] < header.next_offset:
            aborting.add(heapq.heappop(waiting)[1])
        if header.is_control:
            if header.producer_id in aborting and _is_abort(header, batch):
                aborting.remove(header.producer_id)
            found.append(False)
        else:
            found.append(bool(header.record_count) and not (header.is_transactional and header.producer_id in aborting))
    return found


def data_batches(
    batches: Sequence[tuple[BatchHeader, memoryview]], aborted: Iterable[tuple[int, int]]
) -> list[tuple[BatchHeader, memoryview]]:
    """Return those of the batches that hold records for applications. Raises as `are_data`."""
    return [batch for batch, is_data in zip(batches, are_data(batches, aborted), strict=True) if is_data]


def without_aborted(
    batches: list[tuple[BatchHeader, memoryview]], aborted: Sequence[tuple[int, int]] | None
) -> list[tuple[BatchHeader, memoryview]]:
    """Return the batches with those of aborted transactions emptied: control batches without records at the same offsets.

    So their offsets stay accounted for, and readers do not get their records. A marker that cannot be read ends no transaction.
    """
    if not aborted:
        return batches
    try:
        data = are_data(batches, aborted)
    except CorruptBatch:
        return batches  # as without transactions: the audit then counts too much, never too little
    return [
        batch if is_data or batch[0].is_control or not batch[0].record_count else _emptied(*batch)
        for batch, is_data in zip(batches, data, strict=True)
    ]


def _emptied(header: BatchHeader, batch: memoryview) -> tuple[BatchHeader, memoryview]:
    """Return the batch's header alone, as a control batch. The CRC was checked before, and is void now."""
    empty = bytearray(batch[:HEADER_SIZE])
    _INT32.pack_into(empty, _LENGTH_AT, HEADER_SIZE - LENGTH_PREFIX_SIZE)
    _INT16.pack_into(empty, _ATTRIBUTES_AT, (header.attributes & ~_CODEC) | _CONTROL)
    _INT32.pack_into(empty, _COUNT_AT, 0)
    view = memoryview(bytes(empty))
    return read_header(view), view


def visible_end(high_watermark: int, last_stable_offset: int) -> int:
    """Return where a reader of committed records finds the end; a broker without transactions tells no stable offset (-1)."""
    return high_watermark if last_stable_offset < 0 else min(high_watermark, last_stable_offset)


def _is_abort(header: BatchHeader, batch: memoryview) -> bool:
    """Return whether a control batch is an abort marker: its one record's key is a version and a type, two bytes each."""
    if not header.record_count:
        return False  # compaction has emptied it
    data = bytes(batch[HEADER_SIZE : header.size_bytes])
    try:
        _, at = read_zigzag(data, 0)
        at += 1  # the record's own attributes
        _, at = read_zigzag(data, at)
        _, at = read_zigzag(data, at)
        size, at = read_zigzag(data, at)
        _, kind = _MARKER_KEY.unpack_from(data, at)
    except (IndexError, struct.error):
        size, kind = 0, -1
    if size < _MARKER_KEY.size:
        raise CorruptBatch(f"the marker at offset {header.base_offset} has no key of four bytes", base_offset=header.base_offset)
    return bool(kind == _ABORT)
