"""One rule for windows: whoever counts, a time falls in the same window at every tier."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.apps.request_rate.partition import PartitionCounts
from headrace.audit.model.windows import dated, window_start_ms

DAY_MS = 86_400_000


@given(st.integers(-DAY_MS, DAY_MS))
def test_the_consumer_tier_counts_in_the_windows_of_the_live_tier(timestamp_ms: int) -> None:
    # It had a rule of its own: records from before 1970 made one window too many and one too few in the books.
    counts = PartitionCounts("t", 0, begin=0, state_offset=0, minutes={}, reported_to=None)
    counts.count(0, 1, timestamp_ms, is_usable=True)
    assert counts.take_tallies()[0].keys() == {window_start_ms(timestamp_ms)}


def test_what_is_unusable_is_dated_by_itself_then_by_its_neighbour_then_by_the_clock() -> None:
    assert dated(5, previous_ms=7, clock_ms=9) == (5, "record")
    assert dated(None, previous_ms=7, clock_ms=9) == (7, "previous")
    assert dated(None, previous_ms=None, clock_ms=9) == (9, "clock")
