"""A second demo's own events, distinguished from those of earlier demos in the same windows."""

from typing import Any

from headrace.local.demo.demo_share import Before, table

W = 600_000


def window(start: int, verdict: str = "COMPLETE", **tiers: int | None) -> dict[str, Any]:
    numbers = {"missing": 0, "doubled": 0, "altered": 0, "unaudited": 0, "redelivered": 0}
    facts = {"verdict": verdict, "reason": "late", "losses": {}, **numbers}
    return {"window_start_ms": start, "tiers": tiers, **facts}


BEFORE = Before(windows={0: window(0, producer=5, live=5, warehouse=0)}, log_ends={0: 70, 1: 0})


def test_what_was_there_before_is_not_counted() -> None:
    found = {0: window(0, producer=8, live=8, warehouse=8), W: window(W, producer=2, live=2, warehouse=None)}
    assert BEFORE.own(found, 0, "producer") == 3
    assert BEFORE.own(found, W, "producer") == 2
    assert BEFORE.own(found, W, "warehouse") is None
    assert BEFORE.total(found, (0, W), "live") == 5


def test_events_that_an_earlier_demo_had_not_loaded_are_not_counted_when_they_are_loaded_now() -> None:
    assert BEFORE.own({0: window(0, producer=8, live=8, warehouse=8)}, 0, "warehouse") == 3


def test_a_window_that_is_shared_is_told() -> None:
    assert BEFORE.shared((0, W)) == 1
    assert BEFORE.shared((W,)) == 0


def test_rows_of_before_are_told_apart_by_their_place_in_the_log() -> None:
    assert (
        BEFORE.rows_since() == "WHERE ((_topic_partition = 0 AND _offset >= 70) OR (_topic_partition = 1 AND _offset >= 0)"
        " OR _topic_partition NOT IN (0, 1))"
    )
    assert Before(windows={}, log_ends={}).rows_since() == ""
    assert Before(windows={}, log_ends={0: 0}).rows_since() == ""


def test_the_table_has_only_the_windows_of_this_demo_with_its_own_counts() -> None:
    found = {0: window(0, producer=8, live=8), W: window(W, "OPEN", producer=1, live=None), 2 * W: window(2 * W, producer=9)}
    assert table(BEFORE, found, (0, W)) == [
        "window (UTC)      producer  live  verdict",
        "1970-01-01 00:00         3     3  COMPLETE",
        "1970-01-01 00:10         1     –  OPEN: late",
    ]
