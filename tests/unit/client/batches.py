"""Batches for tests, as a producer makes them."""

import struct
from collections.abc import Sequence

from headrace.wire.batch.record_batch import BatchBuilder, place


def batch_of(values: Sequence[bytes], *, timestamp_ms: int = 1_000) -> bytes:
    builder = BatchBuilder()
    for at, value in enumerate(values):
        builder.append(timestamp_ms + at, None, value)
    return builder.build()


def dense_log(batches: Sequence[Sequence[bytes]]) -> bytes:
    """Return batches at offsets that count records, as Apache Kafka's are."""
    log, offset = bytearray(), 0
    for values in batches:
        batch = bytearray(batch_of(values))
        struct.pack_into(">q", batch, 0, offset)
        offset += len(values)
        log += batch
    return bytes(log)


def byte_log(batches: Sequence[Sequence[bytes]]) -> bytes:
    """Return batches at offsets that are their byte positions, as our broker's are."""
    log, offset = bytearray(), 0
    for values in batches:
        batch = bytearray(batch_of(values))
        offset += place(batch, offset)
        log += batch
    return bytes(log)
