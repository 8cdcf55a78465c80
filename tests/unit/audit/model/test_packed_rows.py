"""Rows that are cut keep what they say of producers, and every record stands where it stood."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.audit.model.books import Found
from headrace.audit.model.packed_rows import LIVE_WIDTH, SEQUENCES, Row, Rows, common, split
from headrace.audit.model.tiers import MIRROR

PRODUCER, EPOCH, CRC = 40, 3, 99


def live(first: int, count: int, sequence: int) -> Row:
    return first, count, CRC, PRODUCER, EPOCH, sequence


def test_a_live_row_that_is_cut_keeps_producer_and_epoch_and_counts_its_sequence_on() -> None:
    rows = Rows(LIVE_WIDTH, [live(100, 10, 7)])
    assert rows.between(103, 106) == [live(103, 3, 10)]
    assert rows.cut(103, 106) == [live(103, 3, 10)]
    assert list(rows) == [live(100, 3, 7), live(106, 4, 13)]
    assert (rows.first, rows.end, rows.count) == (100, 110, 7)


def test_a_sequence_begins_again_behind_the_highest_and_one_that_is_not_known_stays_so() -> None:
    assert split(live(0, 10, SEQUENCES - 4), 4, 10)[1] == live(4, 6, 0)
    assert split(live(0, 10, -1), 4, 10)[1] == live(4, 6, -1)
    assert split(live(0, 10, 0), 4, 10)[1] == live(4, 6, 4)


def test_rows_come_in_any_order_and_in_packed_pieces_and_stand_sorted() -> None:
    rows = Rows(rows=[(20, 5, 1), (0, 5, 2)])
    later = Rows(rows=[(10, 5, 3), (30, 1, 4)])
    rows.unpack(later.pack())
    assert [row[0] for row in rows] == [0, 10, 20, 30]
    assert (rows.first, rows.end, rows.count) == (0, 31, 16)
    rows.unpack(Rows(rows=[(40, 2, 5)]).pack())
    assert (list(rows)[-1], rows.end) == ((40, 2, 5), 42)
    rows.unpack(b"")
    assert len(rows) == 5


def test_nothing_is_cut_where_nothing_stands() -> None:
    rows = Rows(rows=[(10, 5, 1)])
    for start, end in ((0, 10), (15, 20)):
        assert (rows.cut(start, end), rows.between(start, end)) == ([], [])
    assert list(rows) == [(10, 5, 1)]
    assert rows.cut(14, 99) == [(14, 1, 1)]
    assert rows.cut(0, 11) == [(10, 1, 1)]
    assert (list(rows), rows.end) == ([(11, 3, 1)], 14)


def test_entries_name_the_same_by_records_and_crc_alone() -> None:
    one = Rows(LIVE_WIDTH, [live(0, 5, 0)])
    assert one.names_the_same(Rows(LIVE_WIDTH, [(0, 5, CRC, 1, 2, 3)]))
    for other in ((1, 5, CRC), (0, 4, CRC), (0, 5, 1)):
        assert not one.names_the_same(Rows(LIVE_WIDTH, [(*other, PRODUCER, EPOCH, 0)]))
    assert not one.names_the_same(Rows(LIVE_WIDTH))


def test_an_entry_reaches_from_the_first_to_the_last_of_all_its_parts() -> None:
    entry = Found(MIRROR)
    assert (bool(entry), entry.first, entry.end) == (False, 0, 0)
    entry.held.add([(10, 5, 1)])
    entry.quarantined.add([(4, 2, 1)])
    entry.altered.add([(20, 3, 1)])
    assert (bool(entry), entry.first, entry.end) == (True, 4, 23)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9))), st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9))))
def test_common_is_what_two_sets_of_numbers_share(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    sets = [{number for first, count in rows for number in range(first, first + count)} for rows in (one, other)]
    assert common([(*row, -1) for row in one], [(*row, -1) for row in other]) == len(sets[0] & sets[1])
