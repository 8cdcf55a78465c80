"""Ranges of offsets: united, replaced by what contains them, never guessed."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model.messages import RangeWindow
from headrace.audit.model.ranges import Outcome, Ranges, WindowSum

W = 600_000


def counts(**by_window: int) -> dict[int, RangeWindow]:
    return {int(name[1:]) * W: RangeWindow(count=count) for name, count in by_window.items()}


def total(ranges: Ranges, window: int = 0) -> int:
    found = ranges.total(window * W)
    return 0 if found is None else found.count


def test_adjacent_ranges_add_up() -> None:
    ranges = Ranges()
    assert ranges.accept(0, 100, counts(w0=5)).outcome is Outcome.ADDED
    assert ranges.accept(100, 250, counts(w0=2, w1=3)).outcome is Outcome.ADDED
    assert (total(ranges), total(ranges, 1)) == (7, 3)
    assert ranges.coverage() == [(0, 250)]


def test_a_range_that_contains_earlier_ones_replaces_them_and_shows_them_as_redelivered() -> None:
    ranges = Ranges()
    ranges.accept(0, 100, counts(w0=5))
    change = ranges.accept(0, 200, counts(w0=9))
    assert change.outcome is Outcome.REPLACED
    assert change.redelivered == {0: 5}
    assert total(ranges) == 9


def test_a_range_inside_what_is_known_changes_no_count() -> None:
    ranges = Ranges()
    ranges.accept(0, 100, counts(w0=5))
    ranges.accept(100, 200, counts(w0=5))
    change = ranges.accept(50, 150, counts(w0=4))
    assert change.outcome is Outcome.REDELIVERED
    assert change.redelivered == {0: 4}
    assert total(ranges) == 10


def test_a_range_that_partly_overlaps_is_not_taken() -> None:
    ranges = Ranges()
    ranges.accept(0, 100, counts(w0=5))
    assert ranges.accept(50, 150, counts(w0=5)).outcome is Outcome.OVERLAPPING
    assert total(ranges) == 5
    assert ranges.coverage() == [(0, 100)]


def test_a_gap_stays_a_gap_until_it_is_told() -> None:
    ranges = Ranges()
    ranges.accept(0, 100, counts(w0=5))
    ranges.accept(200, 300, counts(w0=5))
    assert ranges.coverage() == [(0, 100), (200, 300)]
    ranges.accept(100, 200, counts(w0=1))
    assert ranges.coverage() == [(0, 300)]
    assert total(ranges) == 11


def test_a_tier_that_fell_before_it_noted_its_position_goes_on_with_shorter_ranges() -> None:
    ranges = Ranges()
    ranges.accept(0, 100, counts(w0=10, w1=2))
    assert ranges.accept(0, 60, counts(w0=7)).outcome is Outcome.REDELIVERED
    assert ranges.accept(60, 150, counts(w0=3, w1=4)).outcome is Outcome.REPLACED
    assert (total(ranges), total(ranges, 1)) == (10, 4)
    assert ranges.coverage() == [(0, 150)]


def test_a_second_reading_that_contradicts_the_first_changes_nothing() -> None:
    ranges = Ranges()
    ranges.accept(0, 100, counts(w0=5))
    ranges.accept(0, 60, counts(w0=6))
    assert total(ranges) == 5
    assert ranges.accept(60, 150, counts(w0=1)).outcome is Outcome.OVERLAPPING


def test_an_empty_range_counts_nothing() -> None:
    ranges = Ranges()
    assert ranges.accept(70, 70, {}).outcome is Outcome.ADDED
    assert ranges.coverage() == []


def test_ranges_kept_apart_are_bounded_by_merging_the_oldest() -> None:
    ranges = Ranges(keep=4)
    for at in range(50):
        ranges.accept(at * 10, at * 10 + 10, counts(w0=1))
    assert len(ranges) == 4
    assert total(ranges) == 50
    assert ranges.coverage() == [(0, 500)]


def test_ranges_that_gaps_keep_apart_are_bounded_by_taking_no_more() -> None:
    ranges = Ranges(keep=2, most=5)
    outcomes = [ranges.accept(at * 10, at * 10 + 5, counts(w0=1)).outcome for at in range(8)]
    assert outcomes == [Outcome.ADDED] * 5 + [Outcome.OVERLAPPING] * 3
    assert len(ranges) == 5


def test_a_reader_extends_one_range() -> None:
    ranges = Ranges()
    ranges.extend(130, {0: WindowSum(3, 0, 100, 130)}, begins_at=100)
    ranges.extend(190, {0: WindowSum(2, 0, 130, 150), W: WindowSum(4, 0, 150, 190)})
    ranges.extend(200, {})
    assert len(ranges) == 1
    assert ranges.coverage() == [(100, 200)]
    assert ranges.total(0) == WindowSum(5, 0, 100, 150)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 40), keep=st.integers(1, 6))
def test_counts_equal_those_of_the_offsets_covered_whatever_is_told_in_whatever_order(seed: int, keep: int) -> None:
    """One record at each offset, its window drawn: any accepted story must add up to the records of the offsets it covers."""
    drawn = random.Random(seed)
    log = [drawn.randrange(3) for _ in range(40)]
    ranges = Ranges(keep=keep)
    for _ in range(25):
        start, end = sorted(drawn.sample(range(len(log) + 1), 2))
        found = Counter(log[start:end])
        ranges.accept(start, end, {window * W: RangeWindow(count=count) for window, count in found.items()})
        covered = Counter(log[at] for first, last in ranges.coverage() for at in range(first, last))
        assert {window: total(ranges, window) for window in range(3)} == {window: covered[window] for window in range(3)}
