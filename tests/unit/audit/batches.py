"""Batches with the timestamps that a test names."""

from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import BatchBuilder, BatchHeader, place, read_header


def batch(
    timestamps: list[int],
    *,
    position: int = 0,
    codec: Codec = Codec.NONE,
    bounded: bool = True,
    producer_id: int = -1,
    producer_epoch: int = 0,
    base_sequence: int = 0,
) -> tuple[BatchHeader, memoryview]:
    builder = BatchBuilder(codec, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)
    for at in timestamps:
        builder.append(at, None, b"x" * 20)
    raw = bytearray(builder.build())
    if not bounded:
        raw[22] &= 0x7F
    place(memoryview(raw), position)
    return read_header(raw), memoryview(raw)
