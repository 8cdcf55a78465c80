"""An application that does not come back is noticed once, and its coming back too."""

from headrace.client.consumer.stalled_application import StalledApplication


def test_it_is_stalled_after_its_time_and_not_any_more_when_it_is_back() -> None:
    now, told = [100.0], list[int]()
    watch = StalledApplication(1_000, on_stalled=told.append, name="one", monotonic=lambda: now[0])
    assert not watch.is_stalled()
    now[0] = 100.9
    assert not watch.is_stalled()
    now[0] = 101.5
    assert watch.is_stalled()
    now[0] = 109.0
    assert watch.is_stalled()
    assert told == [1_500], "once for each stall"
    watch.turns += 1
    assert not watch.is_stalled()
    now[0] = 110.5
    assert watch.is_stalled()
    assert told == [1_500, 1_500]


def test_one_that_comes_is_never_stalled_nor_one_without_a_limit() -> None:
    now = [0.0]
    watch, free = StalledApplication(1_000, monotonic=lambda: now[0]), StalledApplication(None, monotonic=lambda: now[0])
    for _ in range(50):
        now[0] += 0.9
        watch.turns += 1
        assert not watch.is_stalled()
        assert not free.is_stalled()
