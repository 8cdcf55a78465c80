"""Which records of a batch fall in which window, against a list of single records."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.counter import CountedBatch, WindowCounter
from headrace.audit.model.messages import Stretch
from headrace.audit.model.windows import window_start_ms
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import read_header
from tests.unit.audit.batches import batch

W = 600_000


def _records(taken: dict[int, list[CountedBatch]]) -> dict[int, list[tuple[int, int]]]:
    """Window → (offset, sequence) of each record."""
    return {
        window: [(one.first + index, one.base_sequence + index) for one in entries for index in range(one.count)]
        for window, entries in taken.items()
    }


@settings(max_examples=200, deadline=None)
@given(
    timestamps=st.lists(st.integers(0, 4 * W), min_size=1, max_size=20),
    codec=st.sampled_from([Codec.NONE, Codec.GZIP, Codec.ZSTD]),
    bounded=st.booleans(),
    base_sequence=st.sampled_from([0, 17, (1 << 31) - 1, (1 << 31) - 5]),
    skip=st.integers(0, 25),
    limit=st.integers(0, 25),
)
def test_every_record_between_two_offsets_is_named_in_its_window(
    timestamps: list[int], codec: Codec, bounded: bool, base_sequence: int, skip: int, limit: int
) -> None:
    counter = WindowCounter(W)
    header, raw = batch(
        timestamps, position=1_000, codec=codec, bounded=bounded, producer_id=7, producer_epoch=3, base_sequence=base_sequence
    )
    first = header.base_offset
    counted = counter.add(header, raw, from_offset=first + skip, to_offset=first + limit)
    expected: dict[int, list[tuple[int, int]]] = {}
    for index, at in list(enumerate(timestamps))[skip:limit]:
        expected.setdefault(at - at % W, []).append((first + index, (base_sequence + index) % (1 << 31)))
    assert counted == sum(map(len, expected.values()))
    taken = counter.take()
    assert _records(taken) == expected
    for entries in taken.values():
        assert {(one.crc, one.producer_id, one.producer_epoch) for one in entries} == {(header.crc, 7, 3)}
        assert all(one.base_sequence + one.count <= 1 << 31 for one in entries)
    assert (counter.take(), counter.entry_count) == ({}, 0)


@settings(max_examples=100, deadline=None)
@given(
    timestamps=st.lists(st.integers(0, 2 * W), min_size=1, max_size=12), cuts=st.lists(st.integers(0, 12)), bounded=st.booleans()
)
def test_a_batch_added_in_parts_is_named_as_if_it_came_at_once(timestamps: list[int], cuts: list[int], bounded: bool) -> None:
    at_once, in_parts = WindowCounter(W), WindowCounter(W)
    header, raw = batch(timestamps, bounded=bounded)
    at_once.add(header, raw)
    edges = sorted(header.base_offset + cut for cut in (*cuts, 0, 12))
    for from_offset, to_offset in pairwise(edges):
        in_parts.add(header, raw, from_offset=from_offset, to_offset=to_offset)
    assert in_parts.entry_count == at_once.entry_count
    assert in_parts.take() == at_once.take()


def test_a_batch_that_its_builder_vouches_for_is_one_entry_and_is_not_opened() -> None:
    counter = WindowCounter(W)
    header, raw = batch([5, 6, W - 1], producer_id=4)
    counter.add(header, raw)
    assert counter.opened_batches == 0
    (entry,) = counter.take()[0]
    assert entry == CountedBatch(header.base_offset, 3, header.crc, 4, 0, 0)
    assert entry.stretch == Stretch(header.base_offset, 3, header.crc)
    counter.add(*batch([5, W]))
    assert counter.opened_batches == 1


def test_two_batches_after_one_another_stay_two_entries() -> None:
    counter = WindowCounter(W)
    for position in (0, 200):
        counter.add(*batch([5, 6], position=position))
    assert [one.count for one in counter.take()[0]] == [2, 2]


def test_a_header_that_nobody_vouches_for_is_not_believed() -> None:
    counter = WindowCounter(W)
    header, raw = batch([W + 5, 3, W + 1], bounded=False)
    counter.add(header, raw)
    assert counter.opened_batches == 1
    first = header.base_offset
    assert _records(counter.take()) == {0: [(first + 1, 1)], W: [(first, 0), (first + 2, 2)]}


def test_a_batch_that_cannot_be_opened_counts_as_its_header_says() -> None:
    counter = WindowCounter(W)
    header, raw = batch([1, W + 1, W + 2], codec=Codec.ZSTD, bounded=False)
    raw[61:70] = b"\x00" * 9
    assert counter.add(header, raw) == 3
    assert counter.unreadable_batches == 1
    assert [one.count for one in counter.take()[W]] == [3]


def test_an_unreadable_batch_that_claims_billions_of_records_costs_nothing() -> None:
    counter = WindowCounter(W)
    _, raw = batch([1, W + 1], position=1 << 40, bounded=False)
    raw[23:27], raw[57:61] = ((1 << 31) - 2).to_bytes(4, "big"), ((1 << 31) - 1).to_bytes(4, "big")
    assert counter.add(read_header(raw), raw) == (1 << 31) - 1
    assert counter.entry_count == 1


def test_records_of_a_batch_that_was_thinned_out_keep_their_own_offsets() -> None:
    """Apache Kafka's compaction leaves offsets 0, 1 and 3 of four, say: the last offset delta stays."""
    header, raw = batch([1, 2, 3], producer_id=5)
    raw[61 + 2 * 27 + 3] = 3 << 1  # the third record's offset delta
    raw[23:27] = (3).to_bytes(4, "big")
    counter = WindowCounter(W)
    assert counter.add(read_header(raw), raw) == 3
    first = header.base_offset
    assert _records(counter.take()) == {0: [(first, 0), (first + 1, 1), (first + 3, 3)]}


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
