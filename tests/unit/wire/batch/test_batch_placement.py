"""A batch's place in a byte-addressed log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import advance_of, crc_matches, iter_records, place, read_header
from headrace.wire.errors import CorruptBatch
from tests.unit.wire.records import RECORDS, Drawn, batch_of, small_batch


def test_a_batch_advances_by_its_bytes_or_by_its_records_where_those_are_more() -> None:
    assert advance_of(500, 3) == 500
    assert advance_of(2_750, 3_000) == 3_000


@given(RECORDS, st.sampled_from(list(Codec)), st.integers(0, 2**62), st.integers(0, 2**31 - 1))
@settings(max_examples=150)
def test_placing_sets_twelve_bytes_and_leaves_all_that_the_crc_covers(
    records: list[Drawn], codec: Codec, position: int, epoch: int
) -> None:
    original = batch_of(records, codec)
    batch = bytearray(original)
    advance = place(memoryview(batch), position, epoch)
    header = read_header(batch)
    assert advance == len(batch)
    assert (header.position, header.leader_epoch, header.next_offset) == (position, epoch, position + advance)
    assert (batch[8:12], batch[16:]) == (original[8:12], original[16:])
    offsets = [record.offset for record in iter_records(batch)]
    assert offsets == list(range(position + advance - len(records), position + advance)), "the last stands before the next batch"
    assert [tuple(record)[1:] for record in iter_records(batch)] == records
    assert DefaultRecordBatch(bytes(batch)).validate_crc()


def test_more_records_than_bytes_leave_a_hole() -> None:
    batch = bytearray(batch_of([(1_000, None, b"twenty equal bytes..", ())] * 3_000, Codec.ZSTD))
    assert len(batch) < 3_000
    assert place(batch, 70_000) == 3_000
    header = read_header(batch)
    assert (header.position, header.base_offset, header.next_offset) == (70_000, 70_000, 73_000)
    assert crc_matches(batch, 0, len(batch))


def test_placing_twice_is_placing_once() -> None:
    batch = bytearray(small_batch())
    place(batch, 5)
    once = bytes(batch)
    place(batch, 5)
    assert batch == once


def test_a_byte_that_went_wrong_in_memory_is_not_blessed_by_placing() -> None:
    batch = bytearray(small_batch())
    batch[-1] ^= 1
    place(batch, 5)
    assert not crc_matches(batch, 0, len(batch))


@pytest.mark.parametrize("size", [0, 60, 61, 70])
def test_a_cut_batch_is_not_placed(size: int) -> None:
    with pytest.raises(CorruptBatch):
        place(bytearray(small_batch()[:size]), 0)


def test_a_batch_with_an_absurd_length_is_not_placed() -> None:
    batch = bytearray(small_batch())
    batch[8:12] = b"\x00\x00\x00\x07"
    with pytest.raises(CorruptBatch, match="says 19 bytes"):
        place(batch, 0)
