"""A batch that gets the time at which a broker took it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from headrace.wire.batch.append_time import stamp
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import crc_matches, iter_records, read_header
from tests.support.small_logs import recomputed_crc
from tests.unit.wire.records import RECORDS, Drawn, batch_of, small_batch


@given(RECORDS, st.sampled_from(list(Codec)), st.integers(-1, 2**63 - 1))
@settings(max_examples=150)
def test_stamping_sets_bit_and_maximum_timestamp_and_keeps_the_crc_true(
    records: list[Drawn], codec: Codec, appended_ms: int
) -> None:
    original = batch_of(records, codec)
    batch = bytearray(original)
    header = stamp(memoryview(batch), read_header(batch), appended_ms)
    assert header == read_header(batch)
    assert header.crc == recomputed_crc(batch)
    assert (header.is_log_append_time, header.max_timestamp_ms, header.codec) == (True, appended_ms, codec)
    assert (batch[:17], batch[23:35], batch[43:]) == (original[:17], original[23:35], original[43:])
    assert [record.timestamp_ms for record in iter_records(batch)] == [appended_ms] * len(records)
    assert [record.value for record in iter_records(batch)] == [value for _, _, value, _ in records]
    theirs = DefaultRecordBatch(bytes(batch))
    assert theirs.validate_crc()
    assert theirs.timestamp_type == 1


def test_stamping_twice_leaves_the_later_time() -> None:
    batch = bytearray(small_batch())
    stamp(batch, stamp(batch, read_header(batch), 5), 7)
    assert read_header(batch).max_timestamp_ms == 7
    assert crc_matches(batch, 0, len(batch))


@pytest.mark.parametrize("at", [30, 45, -1])
def test_a_byte_that_went_wrong_in_memory_is_not_blessed_by_stamping(at: int) -> None:
    batch = bytearray(small_batch())
    header = read_header(batch)
    batch[at] ^= 1
    stamp(batch, header, 1_800_000_000_000)
    assert not crc_matches(batch, 0, len(batch))
