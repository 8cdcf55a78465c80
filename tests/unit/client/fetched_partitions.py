"""Small batches as a broker would store them."""

from headrace.client.fetch.fetched import CorruptRange, FetchedPartition, TopicPartition
from headrace.wire.batch.record_batch import BatchBuilder, BatchHeader, place, read_header

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def stored(position: int, values: list[bytes], *, timestamp_ms: int = 1_000) -> tuple[BatchHeader, memoryview]:
    """Return the header and bytes of one batch at byte `position`, its offsets advancing by its bytes."""
    builder = BatchBuilder()
    for index, value in enumerate(values):
        builder.append(timestamp_ms + index, None, value)
    batch = bytearray(builder.build())
    place(memoryview(batch), position)
    return read_header(batch), memoryview(bytes(batch))


def answer(
    partition: TopicPartition,
    offset: int,
    batches: list[tuple[BatchHeader, memoryview]],
    corrupt: list[CorruptRange] | None = None,
) -> FetchedPartition:
    """Return one partition's part of a fetch's answer."""
    return FetchedPartition(
        topic=partition.topic,
        partition=partition.partition,
        requested_offset=offset,
        high_watermark=1 << 40,
        log_start_offset=0,
        batches=batches,
        corrupt=corrupt or [],
    )
