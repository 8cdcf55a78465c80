"""Record batches: golden bytes, round trips, and kafka-python as the second opinion in both directions."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from headrace.wire.batch.compression import Codec
from headrace.wire.batch.crc32c import crc32c
from headrace.wire.batch.record_batch import (
    TIMESTAMPS_BOUNDED,
    BatchBuilder,
    crc_matches,
    is_surely_between,
    iter_batches,
    iter_records,
    iter_timestamps,
    read_header,
)
from headrace.wire.errors import CorruptBatch, WireError
from tests.unit.wire.records import RECORDS, Drawn, batch_of, small_batch

# Drawn by hand from the table in record.py: at 1,000 ms key "k", value "v", header h=x; at 1,700 ms null and null.
GOLDEN_RECORDS = bytes.fromhex("18 00 00 00 02 6b 02 76 02 02 68 02 780e 00 f8 0a 02 01 01 00")


def test_a_batch_is_written_byte_by_byte_as_drawn() -> None:
    builder = BatchBuilder(producer_id=7, producer_epoch=2, base_sequence=40)
    builder.append(1_000, b"k", b"v", [("h", b"x")])
    builder.append(1_700, None, None)
    covered = struct.pack(">HiqqqhiI", TIMESTAMPS_BOUNDED, 1, 1_000, 1_700, 7, 2, 40, 2) + GOLDEN_RECORDS
    golden = struct.pack(">qiibI", 0, 49 + len(GOLDEN_RECORDS), -1, 2, crc32c(covered)) + covered
    assert builder.build() == golden


def test_the_header_reads_back_field_by_field() -> None:
    builder = BatchBuilder(Codec.LZ4, producer_id=7, producer_epoch=2, base_sequence=40)
    builder.append(5_000, b"k", b"v")
    builder.append(1_000, b"k", b"v")
    batch = builder.build()
    header = read_header(batch)
    assert (header.base_offset, header.size_bytes, header.leader_epoch) == (0, len(batch), -1)
    assert (header.codec, header.last_offset_delta, header.record_count) == (Codec.LZ4, 1, 2)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (1_000, 5_000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)
    assert header.timestamps_bounded
    assert not header.is_control
    assert not header.is_transactional
    assert header.next_offset == 2
    assert read_header(b"junk" + batch, 4) == header


@given(RECORDS, st.sampled_from(list(Codec)))
@settings(max_examples=150)
def test_records_come_back_as_they_went_in(records: list[Drawn], codec: Codec) -> None:
    builder = BatchBuilder(codec)
    for record in records:
        builder.append(*record)
    estimate = builder.size_bytes
    batch = builder.build()
    assert [tuple(record)[1:] for record in iter_records(batch)] == records
    assert [record.offset for record in iter_records(batch)] == list(range(len(records)))
    assert list(iter_timestamps(batch)) == [record[0] for record in records]
    assert crc_matches(batch, 0, len(batch))
    if codec is Codec.NONE:
        assert len(batch) <= estimate <= len(batch) + 30 * len(records)


@given(RECORDS, st.sampled_from([Codec.NONE, Codec.GZIP, Codec.ZSTD]))
@settings(max_examples=100)
def test_kafka_python_reads_our_batches(records: list[Drawn], codec: Codec) -> None:
    batch = batch_of(records, codec, producer_id=9, producer_epoch=1, base_sequence=3)
    theirs = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence, theirs.records_count) == (9, 1, 3, len(records))
    assert [(one.timestamp, one.key, one.value, tuple(one.headers)) for one in theirs] == records


@given(RECORDS, st.sampled_from([Codec.NONE, Codec.GZIP, Codec.ZSTD]))
@settings(max_examples=100)
def test_we_read_kafka_pythons_batches(records: list[Drawn], codec: Codec) -> None:
    theirs = DefaultRecordBatchBuilder(2, int(codec), False, 9, 1, 3, 1 << 20)
    for offset, (timestamp_ms, key, value, headers) in enumerate(records):
        assert theirs.append(offset, timestamp_ms, key, value, list(headers)) is not None
    batch = bytes(theirs.build())
    header = read_header(batch)
    assert crc_matches(batch, 0, len(batch))
    assert not header.timestamps_bounded
    assert header.record_count == len(records)
    assert [tuple(record)[1:] for record in iter_records(batch)] == records
    assert list(iter_timestamps(batch)) == [record[0] for record in records]


def test_lengths_and_deltas_beyond_two_bytes_of_varint_come_back() -> None:
    records: list[Drawn] = [(index * 10_000_000, b"k" * 9_000, b"v" * 70_000, ()) for index in range(3)]
    records += [(5, None, None, ())] * 9_000
    batch = batch_of(records)
    assert [tuple(record)[1:] for record in iter_records(batch)] == records
    assert [one.timestamp for one in DefaultRecordBatch(batch)] == [record[0] for record in records]


def test_records_count_from_the_batchs_place_in_the_log() -> None:
    batch = bytearray(small_batch())
    batch[:8] = (4_711).to_bytes(8, "big")
    assert [record.offset for record in iter_records(batch)] == [4_711, 4_712, 4_713]


DELTAS = st.lists(st.integers(-70, 70) | st.integers(-9_000, 9_000) | st.integers(-(1 << 40), 1 << 40), min_size=1, max_size=6)


@given(DELTAS, st.integers(-3, 3), st.integers(-3, 3), st.sampled_from([0, 1, 3]))
def test_records_are_surely_between_two_times_as_kafka_python_reads_them(deltas, low, high, codec) -> None:  # type: ignore[no-untyped-def]
    """The bounds are drawn beside the lowest and the highest time, where a wrong comparison shows."""
    theirs = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for offset, delta in enumerate([0, *deltas]):
        theirs.append(offset, (1 << 41) + delta, None, b"v" * (offset % 3 * 40), [])
    batch = theirs.build()
    times = [record.timestamp for record in DefaultRecordBatch(bytes(batch))]
    from_ms, to_ms = min(times) + low, max(times) + high
    expected = all(from_ms <= time_ms < to_ms for time_ms in times)
    assert is_surely_between(read_header(batch), batch, from_ms, to_ms) == expected


def test_log_append_time_gives_every_record_the_brokers_time() -> None:
    theirs = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for offset in range(2):
        theirs.append(offset, 1_000 + offset, None, b"v", [])
    batch = bytearray(theirs.build())
    batch[22] |= 0x08
    assert [record.timestamp_ms for record in iter_records(batch)] == [1_001, 1_001]
    assert list(iter_timestamps(batch)) == [1_001, 1_001]
    header = read_header(batch)
    assert header.timestamps_bounded
    assert header.first_timestamp_ms == 1_001


def test_a_control_batch_shows_nothing() -> None:
    batch = bytearray(small_batch(count=1))
    batch[22] |= 0x20
    assert read_header(batch).is_control
    assert list(iter_records(batch)) == []
    assert list(iter_timestamps(batch)) == []


def test_an_empty_batch_is_not_built() -> None:
    with pytest.raises(WireError, match="at least one record"):
        BatchBuilder().build()


def test_timestamps_that_no_delta_can_span_are_refused() -> None:
    builder = BatchBuilder()
    builder.append(-(1 << 62), None, b"")
    builder.append(1 << 62, None, b"")
    with pytest.raises(WireError, match="do not fit one batch"):
        builder.build()


def test_batches_are_walked_to_the_last_whole_one() -> None:
    batches = [small_batch(count=count) for count in (1, 2, 3)]
    data = b"".join(batches)
    for cut in range(1, len(batches[2]) + 1):
        walked = [(header.record_count, bytes(batch)) for header, batch in iter_batches(data[:-cut])]
        assert walked == [(1, batches[0]), (2, batches[1])]
    assert [bytes(batch) for _, batch in iter_batches(memoryview(bytearray(data)))] == batches
    assert list(iter_batches(b"")) == []


def test_the_walk_hands_out_views_not_copies() -> None:
    data = bytearray(small_batch())
    _, batch = next(iter_batches(data))
    data[0] = 1
    assert batch[0] == 1


def test_a_codec_that_kafka_does_not_know_is_refused() -> None:
    batch = bytearray(small_batch())
    batch[22] |= 0x07
    with pytest.raises(CorruptBatch, match="codec 7"):
        list(iter_records(batch))
