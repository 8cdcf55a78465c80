from hypothesis import given
from hypothesis import strategies as st

from headrace.sdk.open_windows import OpenWindows


def test_nothing_under_way_is_past_once_it_is_older_than_events_may_be_late() -> None:
    windows = OpenWindows(100)
    assert windows.moved_past_ms(1_250, 60) == 1_100
    assert windows.moved_past_ms(1_260, 60) == 1_200
    assert windows.moved_past_ms(30, 60) == 0


def test_an_event_under_way_keeps_its_window_and_all_after_it_open() -> None:
    windows = OpenWindows(100)
    windows.enter(450)
    windows.enter(470)
    windows.enter(900)
    assert windows.moved_past_ms(10_000, 0) == 400
    windows.leave(400, 2)
    assert windows.moved_past_ms(10_000, 0) == 900
    windows.leave(950)
    assert windows.moved_past_ms(10_000, 0) == 10_000


def test_a_replay_moves_past_nothing() -> None:
    assert OpenWindows(100).moved_past_ms(10_000, None) is None


@given(st.lists(st.integers(0, 2_000), max_size=20), st.integers(0, 2_000), st.integers(0, 500), st.data())
def test_no_window_with_something_under_way_is_ever_past(
    times: list[int], now_ms: int, lateness_ms: int, data: st.DataObject
) -> None:
    windows = OpenWindows(100)
    for at in times:
        windows.enter(at)
    left = data.draw(st.permutations(times))
    while left:
        past = windows.moved_past_ms(now_ms, lateness_ms)
        assert past is not None
        assert past % 100 == 0
        assert past <= max(0, now_ms - lateness_ms)
        assert all(at >= past for at in left)
        windows.leave(left.pop())
