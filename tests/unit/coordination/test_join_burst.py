"""When joins and departures are acted on. Pure: the clock is a number."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordination.join_burst import LONGEST_QUIET_MS, LONGEST_WAIT_MS, JoinBurst, quiet_ms, rest_ms


def acts(lists: list[tuple[int, set[str]]], moves: int = 10) -> list[tuple[int, int]]:
    """Play a member that reads these lists at their times, and again when it said; return when it acted, on how many members."""
    burst, acted, again_ms, now_here = JoinBurst(), list[tuple[int, int]](), None, set[str]()
    for at_ms, members in [*lists, (1 << 40, set())]:
        while again_ms is not None and again_ms < at_ms:
            now_ms, again_ms = again_ms, None
            due_ms = burst.act_at_ms(now_here, moves, now_ms)
            if due_ms <= now_ms:
                acted.append((now_ms, len(now_here)))
            else:
                again_ms = due_ms
        if not members:
            break
        now_here = members
        due_ms = burst.act_at_ms(members, moves, at_ms)
        again_ms = due_ms if due_ms > at_ms else None
        if again_ms is None:
            acted.append((at_ms, len(members)))
    return acted


def first(count: int) -> set[str]:
    return {f"m{number:03d}" for number in range(count)}


def test_a_hundred_joins_in_two_seconds_are_few_rebalances_and_the_last_has_all() -> None:
    acted = acts([(20 * number, first(number + 1)) for number in range(100)])
    assert len(acted) <= 6
    assert acted[-1] == (20 * 99 + LONGEST_QUIET_MS, 100)


def test_joins_that_never_end_are_acted_on_in_bounded_time() -> None:
    acted = acts([(500 * number, first(50 + number)) for number in range(100)], moves=1_000)
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(acted)]
    assert max(gaps) <= LONGEST_WAIT_MS + 500
    assert acted[-1][1] == 149


def test_a_departure_is_acted_on_at_once_also_in_the_middle_of_joins() -> None:
    assert acts([(0, first(50)), (5_000, first(51)), (5_010, first(52) - {"m000"})]) == [(510, 50), (5_010, 51)]


def test_two_members_with_little_to_move_wait_for_nobody_noticeably() -> None:
    assert quiet_ms(2, 8) < 30
    assert rest_ms(2) < 10
    assert acts([(0, first(2))], moves=8) == [(28, 2)]


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 2_000), st.sets(st.sampled_from(sorted(first(8))), min_size=1)), min_size=1, max_size=30),
    st.integers(0, 2_000),
)
def test_the_last_list_is_acted_on_in_the_end(lists: list[tuple[int, set[str]]], moves: int) -> None:
    now_ms, timed = 0, []
    for after_ms, members in lists:
        now_ms += after_ms
        timed.append((now_ms, members))
    acted = acts(timed, moves)
    assert acted[-1][1] == len(timed[-1][1])
    assert acted[-1][0] <= now_ms + LONGEST_QUIET_MS
