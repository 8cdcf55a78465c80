"""How much a fetch asks for, by lines that are simulated: so many bytes a second, and a round trip between two fetches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.mirror.fetching.fetch_size import LEAST_ALL_BYTES, LEAST_BYTES, MOST_BYTES, FetchSize


def settled(bytes_per_s: float, round_trip_ms: float) -> tuple[int, float]:
    """Return where the size ends on such a line, and which part of the time the line is busy then."""
    size = FetchSize()
    for _ in range(50):
        size.fetched(size.bytes, size.bytes, int(round_trip_ms + size.bytes / bytes_per_s * 1000))
    sending_ms = size.bytes / bytes_per_s * 1000
    return size.bytes, sending_ms / (sending_ms + round_trip_ms)


def test_near_at_hand_it_stays_small() -> None:
    assert settled(1e9, 0.1)[0] == LEAST_BYTES


@pytest.mark.parametrize("bytes_per_s", [0.2e6, 2e6, 10e6, 15e6])
def test_far_away_the_line_is_busy_for_most_of_the_time(bytes_per_s: float) -> None:
    assert settled(bytes_per_s, 100)[1] > 0.8


def test_over_a_slow_line_what_is_fetched_does_not_come_late() -> None:
    assert settled(0.2e6, 100)[0] == LEAST_BYTES


def test_a_fetch_of_many_partitions_over_a_slow_line_does_not_take_minutes() -> None:
    """Fault: eight partitions of a megabyte each came in one fetch of 40 seconds, and nothing was copied meanwhile."""
    size = FetchSize()
    for _ in range(9):
        size.fetched(min(size.bytes, size.bytes_of_all), size.bytes_of_all, int(100 + size.bytes_of_all / 0.2e6 * 1000))
    assert size.bytes_of_all == LEAST_ALL_BYTES
    for _ in range(9):
        size.fetched(size.bytes_of_all // 8, size.bytes_of_all, 20)
    assert size.bytes_of_all == 2 * MOST_BYTES, "and becomes large again"


def test_it_becomes_small_again_where_the_line_becomes_slow_or_near() -> None:
    for took_ms in (5, 5_000):
        size = FetchSize()
        for _ in range(9):
            size.fetched(size.bytes, size.bytes, 500)
        assert size.bytes == MOST_BYTES
        for _ in range(9):
            size.fetched(size.bytes, size.bytes, took_ms)
        assert size.bytes == LEAST_BYTES


def test_waiting_for_news_says_nothing_of_the_line() -> None:
    size = FetchSize()
    for _ in range(9):
        size.fetched(10_000, 80_000, 300)
    assert size.bytes == LEAST_BYTES


@given(st.lists(st.tuples(st.integers(0, 1 << 26), st.integers(0, 100_000))))
def test_it_keeps_its_bounds(fetches: list[tuple[int, int]]) -> None:
    size = FetchSize()
    for largest_bytes, took_ms in fetches:
        size.fetched(largest_bytes, 8 * largest_bytes, took_ms)
        assert LEAST_BYTES <= size.bytes <= MOST_BYTES
        assert LEAST_ALL_BYTES <= size.bytes_of_all <= 2 * MOST_BYTES
