"""What a reader of committed records may see of fetched batches (KIP-98). Pure.

The broker sends nothing from its last stable offset on, but batches of aborted transactions are among what it sends, with a list
of them. Each of them becomes an empty control batch at its place: its offsets stay accounted for, and nobody sees its records.
"""

import struct
from collections.abc import Sequence

from ...wire.batch.record_batch import HEADER_SIZE, LENGTH_PREFIX_SIZE, BatchHeader, read_header

_CONTROL = 0x0020
_CODEC = 0x0007
_ATTRIBUTES = struct.Struct(">h")
_SIZE = struct.Struct(">i")
_ATTRIBUTES_AT, _COUNT_AT, _LENGTH_AT = 21, 57, 8
_MARKER_KEY = struct.Struct(">hh")
_ABORT = 0

Batches = list[tuple[BatchHeader, memoryview]]


def committed(batches: Batches, aborted: Sequence[tuple[int, int]] | None) -> Batches:
    """Return the batches with those of aborted transactions emptied. `aborted`: (producer id, first offset) of each, as fetched.

    A transaction ends with its producer's marker; of one whose marker is not among these batches all is emptied.
    """
    if not aborted:
        return batches
    waiting = sorted(aborted, key=lambda one: one[1], reverse=True)
    open_ids: set[int] = set()
    found: Batches = []
    for header, batch in batches:
        while waiting and waiting[-1][1] < header.next_offset:
            open_ids.add(waiting.pop()[0])
        if header.is_control:
            if is_abort(header, batch):
                open_ids.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_ids:
            found.append(_emptied(header, batch))
            continue
        found.append((header, batch))
    return found


def is_abort(header: BatchHeader, batch: memoryview) -> bool:
    """Return whether a control batch is the marker of an aborted transaction."""
    body = bytes(batch[HEADER_SIZE:])
    # One record: length, attributes, timestamp delta, offset delta (each a varint or a byte), then the key's length and the key.
    at = _after_varint(body, 0) + 1
    at = _after_varint(body, _after_varint(body, at))
    at = _after_varint(body, at)
    if len(body) < at + _MARKER_KEY.size:
        return False
    version, kind = _MARKER_KEY.unpack_from(body, at)
    return bool(version >= 0 and kind == _ABORT)


def _after_varint(body: bytes, at: int) -> int:
    while at < len(body) and body[at] & 0x80:
        at += 1
    return at + 1


def _emptied(header: BatchHeader, batch: memoryview) -> tuple[BatchHeader, memoryview]:
    """Return the batch without its records, as a control batch of the same offsets. Its CRC has been checked, and is void now."""
    empty = bytearray(batch[:HEADER_SIZE])
    _SIZE.pack_into(empty, _LENGTH_AT, HEADER_SIZE - LENGTH_PREFIX_SIZE)
    _ATTRIBUTES.pack_into(empty, _ATTRIBUTES_AT, (header.attributes & ~_CODEC) | _CONTROL)
    _SIZE.pack_into(empty, _COUNT_AT, 0)
    view = memoryview(bytes(empty))
    return read_header(view), view


def visible_end(high_watermark: int, last_stable_offset: int) -> int:
    """Return where a reader of committed records finds the log's end. -1: it tells none."""
    return high_watermark if last_stable_offset < 0 else min(high_watermark, last_stable_offset)
