"""Records per window from batches, against a count of single records."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.counter import WindowCounter
from headrace.audit.model.windows import window_start_ms
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import read_header
from tests.unit.audit.batches import batch

W = 600_000


@settings(max_examples=100, deadline=None)
@given(
    timestamps=st.lists(st.integers(0, 4 * W), min_size=1, max_size=20),
    codec=st.sampled_from([Codec.NONE, Codec.GZIP, Codec.ZSTD]),
    bounded=st.booleans(),
    skip=st.integers(0, 25),
    limit=st.integers(0, 25),
)
def test_every_record_between_two_offsets_is_counted_in_its_window(
    timestamps: list[int], codec: Codec, bounded: bool, skip: int, limit: int
) -> None:
    counter = WindowCounter(W)
    header, raw = batch(timestamps, position=1_000, codec=codec, bounded=bounded)
    first = header.base_offset
    counted = counter.add(header, raw, from_offset=first + skip, to_offset=first + limit)
    expected = Counter(at - at % W for at in timestamps[skip:limit])
    assert counted == sum(expected.values())
    assert counter.take() == dict(expected)
    assert counter.take() == {}


def test_a_batch_that_its_builder_vouches_for_is_counted_without_being_opened() -> None:
    counter = WindowCounter(W)
    counter.add(*batch([5, 6, W - 1]))
    assert counter.opened_batches == 0
    counter.add(*batch([5, W]))
    assert counter.opened_batches == 1
    assert counter.take() == {0: 4, W: 1}


def test_a_header_that_nobody_vouches_for_is_not_believed() -> None:
    counter = WindowCounter(W)
    header, raw = batch([W + 5, 3, W + 1], bounded=False)
    counter.add(header, raw)
    assert counter.opened_batches == 1
    assert counter.take() == {0: 1, W: 2}


def test_counts_are_kept_by_producer_id() -> None:
    counter = WindowCounter(W)
    counter.add(*batch([1, 2], producer_id=7))
    counter.add(*batch([3], producer_id=9))
    counter.add(*batch([4, W], producer_id=-1))
    assert counter.take_by_producer() == {0: {7: 2, 9: 1, -1: 1}, W: {-1: 1}}


def test_a_batch_that_cannot_be_opened_counts_as_its_header_says() -> None:
    counter = WindowCounter(W)
    header, raw = batch([1, W + 1, W + 2], codec=Codec.ZSTD, bounded=False)
    raw[61:70] = b"\x00" * 9
    assert counter.add(header, raw) == 3
    assert counter.unreadable_batches == 1
    assert counter.take() == {W: 3}


def test_control_batches_hold_no_events() -> None:
    _, raw = batch([1, 2])
    raw[22] |= 0x20
    counter = WindowCounter(W)
    assert counter.add(read_header(raw), raw) == 0
    assert counter.take() == {}


def test_records_without_a_time_fall_in_one_window() -> None:
    assert window_start_ms(-1) == window_start_ms(-(1 << 62)) == -W
    assert window_start_ms(0) == 0
    assert window_start_ms(W - 1) == 0
    assert window_start_ms(W) == W
