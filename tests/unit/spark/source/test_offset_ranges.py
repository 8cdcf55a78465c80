"""Pieces cover exactly what was asked for, and each record is read once wherever the cuts fall."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.spark.errors import WarehouseError
from headrace.spark.source.offset_ranges import OffsetRange, new_ranges, packed, ranges_from_json, ranges_to_json, split_ranges
from headrace.spark.source.record_reader import read_records
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import Record, iter_records

from ..pretend_log import pretend_log

spans = st.tuples(st.integers(0, 3), st.integers(0, 5_000), st.integers(0, 5_000))


@settings(max_examples=200, deadline=None)
@given(st.lists(spans, max_size=5), st.integers(1, 20), st.integers(1, 600), st.integers(1, 600))
def test_splits_cover_the_ranges_without_overlap_and_none_is_longer_than_allowed(
    spans: list[tuple[int, int, int]], splits: int, min_span: int, max_span: int
) -> None:
    ranges = [OffsetRange(partition=index, from_offset=a, to_offset=a + b) for index, (_, a, b) in enumerate(spans)]
    found = split_ranges(ranges, splits=splits, min_span=min_span, max_span=max_span)
    assert all(0 < one.span <= max_span for one in found)
    for one in ranges:
        mine = sorted(split for split in found if split.partition == one.partition)
        assert [split.to_offset for split in mine[:-1]] == [split.from_offset for split in mine[1:]]
        assert sum(split.span for split in mine) == one.span
        if mine:
            assert (mine[0].from_offset, mine[-1].to_offset) == (one.from_offset, one.to_offset)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=30), min_size=1, max_size=6),
    st.booleans(),
    st.sampled_from([Codec.NONE, Codec.ZSTD]),
    st.data(),
)
def test_for_any_cuts_each_record_is_read_exactly_once(
    sizes: list[list[int]], dense: bool, codec: Codec, data: st.DataObject
) -> None:
    # Many equal small records under zstd make holes (more records than bytes); long ones make gaps after the last record.
    times = data.draw(st.sampled_from([1, 30]))
    log = pretend_log([[(1_000 + n, b"x" * n) for n in batch] * times for batch in sizes], dense=dense, codec=codec)
    brute = [record for batch in log.batches for record in iter_records(batch)]
    cuts = sorted({0, log.end, *data.draw(st.lists(st.integers(0, log.end), max_size=8))})
    found: list[Record] = []
    for begin, end in itertools.pairwise(cuts):
        for record in read_records(log.read, OffsetRange(partition=0, from_offset=begin, to_offset=end)):
            assert isinstance(record, Record)
            assert begin <= record.offset < end
            found.append(record)
    assert found == brute
    assert len({record.offset for record in found}) == len(found)


def test_what_is_new_begins_where_the_table_ends() -> None:
    found = new_ranges(loaded={0: 100, 1: 50}, log_start={0: 0, 1: 0, 2: 0}, log_end={0: 100, 1: 80, 2: 7}, topic="t")
    assert found == [OffsetRange(partition=1, from_offset=50, to_offset=80), OffsetRange(partition=2, from_offset=0, to_offset=7)]


def test_expired_offsets_stay_visible_as_a_gap() -> None:
    found = new_ranges(loaded={0: 100}, log_start={0: 300}, log_end={0: 400}, topic="t")
    assert found == [OffsetRange(partition=0, from_offset=300, to_offset=400)]


def test_a_log_that_ends_before_the_table_is_refused() -> None:
    with pytest.raises(WarehouseError, match="loaded partition 0 up to 100 and the log ends at 60"):
        new_ranges(loaded={0: 100}, log_start={0: 0}, log_end={0: 60}, topic="t")


def test_ranges_survive_their_json() -> None:
    ranges = [OffsetRange(partition=0, from_offset=1, to_offset=9), OffsetRange(partition=2, from_offset=5, to_offset=5)]
    assert ranges_from_json(ranges_to_json(ranges)) == ranges


@pytest.mark.parametrize("text", ["", "{}x", "[1]", "[[0,9,1]]", "[[-1,0,1]]", "null", '[["a",0,1]]'])
def test_a_wrong_ranges_option_is_a_clear_error(text: str) -> None:
    with pytest.raises(WarehouseError, match="ranges"):
        ranges_from_json(text)


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 6), st.integers(1, 100))
def test_packed_splits_are_the_same_splits_in_their_order_and_in_few_groups(spans: list[int], tasks: int, min_span: int) -> None:
    splits = [OffsetRange(partition=number, from_offset=0, to_offset=span) for number, span in enumerate(spans)]
    groups = packed(splits, tasks=tasks, min_span=min_span)
    assert [one for group in groups for one in group] == splits
    most = max(min_span, -(-sum(spans) // tasks))
    assert all(len(group) == 1 or sum(one.span for one in group) <= most for group in groups)
    assert len(groups) <= 2 * tasks + 1
    if sum(spans) <= min_span:
        assert len(groups) <= 1
