"""Where a length, a time or a count needs one byte more; what each bit of the attributes says; a batch without records."""

from collections.abc import Iterator

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from headrace.wire.batch.batch_header import HEADER_SIZE, TIMESTAMPS_BOUNDED, BatchHeader, iter_batches, read_header
from headrace.wire.batch.batch_placement import place
from headrace.wire.batch.record_batch import BatchBuilder, is_surely_between, iter_records, iter_timestamps
from headrace.wire.errors import CorruptBatch
from tests.unit.wire.records import small_batch

BORDERS = (0, 1, 63, 64, 65, 127, 128, 4_095, 4_096, 4_097, 8_191, 8_192, 8_193)
BASE_MS = 1_800_000_000_000
MORE_THAN_SHORT = 4_200
"""Offset deltas up to 4,095 are made once; behind them each is created again."""


@pytest.mark.parametrize("size", BORDERS)
def test_keys_values_headers_and_times_of_any_length_come_back(size: int) -> None:
    builder = BatchBuilder()
    records = [
        (BASE_MS, b"k" * size, None, ()),
        (BASE_MS + size, None, b"v" * size, ()),
        (BASE_MS + 2 * size, b"k", b"v", (("h" * min(size, 8_192), b"x" * size),)),
    ]
    for timestamp_ms, key, value, headers in records:
        builder.append(timestamp_ms, key, value, headers)
    batch = builder.build()
    header = read_header(batch)
    assert [tuple(one)[1:] for one in iter_records(batch)] == records
    assert list(iter_timestamps(batch)) == [timestamp_ms for timestamp_ms, *_ in records]
    assert is_surely_between(header, batch, BASE_MS, BASE_MS + 2 * size + 1)
    assert size == 0 or not is_surely_between(header, batch, BASE_MS, BASE_MS + 2 * size)


def test_every_record_of_a_long_batch_has_its_own_offset() -> None:
    builder = BatchBuilder()
    for number in range(MORE_THAN_SHORT):
        builder.append(BASE_MS + number, None, b"%d" % number)
    records = list(iter_records(builder.build()))
    assert [(one.offset, one.timestamp_ms, one.value) for one in records] == [
        (number, BASE_MS + number, b"%d" % number) for number in range(MORE_THAN_SHORT)
    ]


@pytest.mark.parametrize("span_ms", [1, 63, 64, 8_192, 1 << 20, 1 << 40])
def test_the_size_foretold_is_never_too_low_and_a_few_bytes_a_record_too_high(span_ms: int) -> None:
    builder = BatchBuilder()
    bytes_of_a_time = -(-(span_ms << 1).bit_length() // 7)
    for number in range(30):
        builder.append(BASE_MS + span_ms * (number % 2), b"key", b"v" * number)
        size = len(builder.build())
        assert size <= builder.size_bytes <= size + (8 + bytes_of_a_time) * builder.record_count
    assert (builder.min_timestamp_ms, builder.max_timestamp_ms) == (BASE_MS, BASE_MS + span_ms)


def test_times_before_the_epoch_have_their_own_bounds() -> None:
    builder = BatchBuilder()
    assert (builder.min_timestamp_ms, builder.max_timestamp_ms) == (0, 0)
    for timestamp_ms in (-5, -9):
        builder.append(timestamp_ms, None, b"")
    assert (builder.min_timestamp_ms, builder.max_timestamp_ms) == (-9, -5)
    assert [one.timestamp_ms for one in iter_records(builder.build())] == [-5, -9]


def test_a_time_before_the_first_record_s_is_seen_where_it_just_fits_into_a_byte() -> None:
    """Other producers' base timestamp is that of their first record."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 16)
    for offset, timestamp_ms in enumerate((BASE_MS, BASE_MS - 64)):
        builder.append(offset, timestamp_ms, None, b"v", [])
    batch = bytes(builder.build())
    header = read_header(batch)
    assert is_surely_between(header, batch, BASE_MS - 64, BASE_MS + 1)
    assert not is_surely_between(header, batch, BASE_MS - 63, BASE_MS + 1)
    assert list(iter_timestamps(batch)) == [BASE_MS, BASE_MS - 64]


def headers() -> Iterator[tuple[int, BatchHeader]]:
    header = read_header(small_batch())
    for bit in range(8):
        yield bit, header._replace(attributes=1 << bit, base_timestamp_ms=10, max_timestamp_ms=20)


def test_each_bit_of_the_attributes_says_one_thing() -> None:
    told = {
        bit: (
            one.is_packed,
            one.is_log_append_time,
            one.is_transactional,
            one.is_control,
            one.timestamps_bounded,
            one.first_timestamp_ms,
        )
        for bit, one in headers()
    }
    packed, nothing = (True, False, False, False, False, 10), (False, False, False, False, False, 10)
    assert [told[bit] for bit in range(3)] == [packed] * 3
    assert told[3] == (False, True, False, False, True, 20), "every record has the maximum timestamp"
    assert told[4] == (False, False, True, False, False, 10)
    assert told[5] == (False, False, False, True, False, 10)
    assert told[6] == nothing
    assert TIMESTAMPS_BOUNDED == 1 << 7
    assert told[7] == (False, False, False, False, True, 10)


def test_timestamps_that_contradict_each_other_bound_nothing() -> None:
    header = read_header(small_batch())._replace(attributes=TIMESTAMPS_BOUNDED, base_timestamp_ms=21, max_timestamp_ms=20)
    assert not header.timestamps_bounded
    assert header._replace(base_timestamp_ms=20).timestamps_bounded


def without_records() -> bytearray:
    empty = bytearray(small_batch())[:HEADER_SIZE]
    empty[8:12] = (HEADER_SIZE - 12).to_bytes(4, "big")
    empty[57:61] = bytes(4)
    return empty


def test_a_batch_without_records_is_walked_over_also_as_the_last_one() -> None:
    """Apache Kafka keeps one where compaction has taken all records of a producer's last batch."""
    whole, empty = bytearray(small_batch()), without_records()
    found = [(header.record_count, len(view)) for header, view in iter_batches(bytes(empty + whole + empty))]
    count = read_header(whole).record_count
    assert found == [(0, HEADER_SIZE), (count, len(whole)), (0, HEADER_SIZE)]
    assert [len(view) for _, view in iter_batches(bytes(whole + empty[:-1]))] == [len(whole)]


def test_a_batch_without_records_is_placed_like_any_other() -> None:
    empty = without_records()
    assert place(empty, 1_000, 7) == HEADER_SIZE
    header = read_header(empty)
    assert (header.base_offset, header.leader_epoch, header.position) == (1_000 + HEADER_SIZE, 7, 1_000)
    for wrong in (empty[:-1], bytearray(small_batch())[:-1]):
        with pytest.raises(CorruptBatch):
            place(wrong, 0)
