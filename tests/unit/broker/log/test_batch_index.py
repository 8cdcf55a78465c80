"""The index of a segment: known batch starts, bad ranges, and readers' positions."""

from headrace.broker.log import BadRange
from headrace.broker.log.segment.batch_index import BatchIndex


def index_of(*starts: int) -> BatchIndex:
    index = BatchIndex(1)
    for start in starts:
        index.starts.add(start, 0)
    return index


def test_a_look_up_that_enters_a_bad_range_at_any_known_start_leaves_it_at_its_end() -> None:
    index = index_of(0, 10, 20, 30)
    assert index.add_bad(BadRange(10, 30, "damaged"))
    assert [index.after_bad(offset) for offset in (0, 10, 20, 30)] == [0, 30, 30, 30]


def test_a_bad_range_inside_a_known_one_is_not_new_and_a_larger_one_replaces_it() -> None:
    index = index_of(0, 10, 20, 30)
    assert index.add_bad(BadRange(10, 20, "damaged"))
    assert not index.add_bad(BadRange(10, 20, "damaged again"))
    assert index.add_bad(BadRange(10, 30, "more of it"))
    assert index.bad_ranges == [BadRange(10, 30, "more of it")]
    assert index.after_bad(10) == 30


def test_adjacent_bad_ranges_are_left_at_the_last_one() -> None:
    index = index_of(0, 10, 20)
    index.add_bad(BadRange(0, 10, "damaged"))
    index.add_bad(BadRange(10, 20, "damaged too"))
    assert index.after_bad(0) == 20


def test_no_reader_continues_inside_a_bad_range() -> None:
    index = index_of(0, 10, 20)
    for offset in (5, 10, 20):
        index.remember_reader(offset)
    index.add_bad(BadRange(0, 20, "damaged"))
    assert list(index.reader_offsets) == [20]
