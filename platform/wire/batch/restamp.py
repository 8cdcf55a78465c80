"""Giving a batch another producer: its id, epoch, sequence and the transactional flag, all of them in the header.

The records behind the header are neither read nor packed again. The CRC follows from the old one and from what differs in the
header (`crc32c.patched`), so a batch that was damaged before is damaged after. Source: Kafka's `DefaultRecordBatch`; decision 30.
"""

import struct
from typing import NamedTuple

from .batch_builder import BatchBuilder
from .batch_header import CRC_COVERS_FROM, HEADER_SIZE, MAGIC, BatchHeader, Buffer
from .crc32c import patched
from .record import iter_records

_HEADER = struct.Struct(">qiibIHiqqqhii")
_TRANSACTIONAL = 0x0010
_DELETE_HORIZON = 0x0040
_NO_EPOCH = -1


class Stamp(NamedTuple):
    """The producer's fields of a batch. The default is the neutral stamp, of no producer: what two copies are compared by."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False


NEUTRAL = Stamp()


class Restamped(NamedTuple):
    """A batch in two pieces, to be sent one after the other. `records` is a view into the batch that it was made of."""

    front: bytes
    """The 61 bytes of the new header: base offset 0, no leader epoch."""
    records: memoryview
    crc: int
    """The CRC in `front`."""

    @property
    def size_bytes(self) -> int:
        return len(self.front) + len(self.records)


def stamp_of(header: BatchHeader) -> Stamp:
    return Stamp(header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional)


def restamped(header: BatchHeader, batch: memoryview, stamp: Stamp) -> Restamped:
    """Return the batch under another stamp. `header` is the batch's own, its CRC already checked. Hot: once per copied batch."""
    attributes = header.attributes & ~_TRANSACTIONAL
    if stamp.is_transactional:
        attributes |= _TRANSACTIONAL
    crc = _crc_under(header, attributes, stamp)
    front = _HEADER.pack(
        0,
        header.size_bytes - 12,
        _NO_EPOCH,
        MAGIC,
        crc,
        attributes,
        header.last_offset_delta,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
        stamp.producer_id,
        stamp.producer_epoch,
        stamp.base_sequence,
        header.record_count,
    )
    return Restamped(front, batch[HEADER_SIZE : header.size_bytes], crc)


def placed_at(made: Restamped, base_offset: int) -> Restamped:
    """Return the batch with a base offset, and leader epoch 0; neither is under the CRC."""
    return made._replace(front=_OFFSET.pack(base_offset) + made.front[8:12] + _EPOCH_0 + made.front[16:])


_OFFSET = struct.Struct(">q")
_EPOCH_0 = bytes(4)


def crc_under(header: BatchHeader, stamp: Stamp) -> int:
    """Return the CRC that the batch has under another stamp, from its header alone.

    Under `NEUTRAL` it is the same for every copy of the batch, through any mirrors.
    """
    attributes = header.attributes & ~_TRANSACTIONAL
    return _crc_under(header, attributes | _TRANSACTIONAL if stamp.is_transactional else attributes, stamp)


def _crc_under(header: BatchHeader, attributes: int, stamp: Stamp) -> int:
    before = _FIELDS.pack(header.attributes, 0, 0, 0, header.producer_id, header.producer_epoch, header.base_sequence, 0)
    after = _FIELDS.pack(attributes, 0, 0, 0, stamp.producer_id, stamp.producer_epoch, stamp.base_sequence, 0)
    change = int.from_bytes(before, "big") ^ int.from_bytes(after, "big")
    if not change:
        return header.crc
    return patched(header.crc, change.to_bytes(_FIELDS.size, "big"), header.size_bytes - HEADER_SIZE)


_FIELDS = struct.Struct(">Hiqqqhii")
"""The header from where the CRC begins. Fields that no stamp changes are zero on both sides."""


def needs_rebuilding(header: BatchHeader) -> bool:
    """Return whether a broker would refuse the batch from a producer, or spoil it, whatever its stamp.

    So it is with batches that compaction has thinned out (their offsets have holes), and with those that a broker has stamped
    with its own time (no producer may send that).
    """
    return not header.is_dense or header.is_log_append_time or bool(header.attributes & _DELETE_HORIZON)


def rebuilt(header: BatchHeader, batch: Buffer) -> tuple[memoryview, list[int]]:
    """Return the batch created again, and the offset delta that each record had.

    Offsets are dense, timestamps are those that a consumer of the batch reads, the codec stays. For batches that
    `needs_rebuilding` alone. Raises `CorruptBatch`.
    """
    builder = BatchBuilder(header.codec)
    deltas = []
    for record in iter_records(batch):
        builder.append(record.timestamp_ms, record.key, record.value, record.headers)
        deltas.append(record.offset - header.base_offset)
    return memoryview(builder.build()), deltas


assert _HEADER.size == HEADER_SIZE
assert _FIELDS.size == HEADER_SIZE - CRC_COVERS_FROM
