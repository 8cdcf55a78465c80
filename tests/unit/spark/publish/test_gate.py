"""An hour is opened when it is over, balanced, and shown as it was proven; in every other case it stays shut and says why."""

from typing import Any

import pytest

from headrace.spark.errors import WarehouseError
from headrace.spark.publish.gate import HOUR_MS, AuditedWindow, HourDecision, decide

HOUR = 400_000
START = HOUR * HOUR_MS
LATER = START + 10 * HOUR_MS


def window(number: int = 0, verdict: str = "COMPLETE", warehouse: int | None = 5, reason: str = "") -> AuditedWindow:
    start = START + number * 600_000
    return AuditedWindow.of({"window_start_ms": start, "verdict": verdict, "tiers": {"warehouse": warehouse}, "reason": reason})


def the_hour(rows: int, *windows: AuditedWindow, now_ms: int = LATER) -> HourDecision:
    (decision,) = decide({HOUR: rows}, windows, now_ms=now_ms)
    assert (decision.hour, decision.row_count) == (HOUR, rows)
    return decision


def test_an_hour_whose_windows_are_complete_is_opened() -> None:
    decision = the_hour(10, window(0), window(3))
    assert (decision.is_open, decision.may_change_soon) == (True, False)


def test_a_window_accepted_by_somebodys_word_opens_the_hour_and_is_named() -> None:
    decision = the_hour(10, window(0), window(3, "ACCEPTED", reason="producer:app, retired by anna: its host burned"))
    assert decision.is_open
    assert decision.reason == "1 of 2 windows are ACCEPTED, the others COMPLETE"
    assert [one.words["reason"] for one in decision.windows if one.verdict == "ACCEPTED"] == [
        "producer:app, retired by anna: its host burned"
    ]


@pytest.mark.parametrize("verdict", ["INCOMPLETE", "OVERCOUNTED", "UNKNOWN", "OPEN", "SOMETHING_NEW"])
def test_one_window_that_is_not_complete_keeps_the_hour_shut(verdict: str) -> None:
    decision = the_hour(10, window(0), window(1, verdict, reason="because"))
    assert not decision.is_open
    assert verdict in decision.reason
    assert "because" in decision.reason
    assert decision.may_change_soon == (verdict == "OPEN")


def test_the_running_hour_stays_shut_without_waiting() -> None:
    decision = the_hour(5, window(0), now_ms=START + HOUR_MS - 1)
    assert (decision.is_open, decision.may_change_soon, decision.reason) == (False, False, "the hour has not ended")
    assert the_hour(5, window(0), now_ms=START + HOUR_MS).is_open


def test_rows_that_the_audit_does_not_know_keep_the_hour_shut() -> None:
    assert the_hour(5).reason == "it has 5 rows and the audit knows no window of it"
    decision = the_hour(6, window(0))
    assert (decision.is_open, decision.may_change_soon) == (False, True)
    assert decision.reason == "it has 6 rows and the audit was told of 5"


def test_an_unreported_warehouse_tier_may_change_soon() -> None:
    decision = the_hour(5, window(0, "UNKNOWN", warehouse=None))
    assert (decision.is_open, decision.may_change_soon) == (False, True)


def test_an_hour_with_windows_and_no_rows_is_decided_too() -> None:
    (decision,) = decide({}, [window(0, "INCOMPLETE", warehouse=0)], now_ms=LATER)
    assert (decision.hour, decision.is_open, decision.row_count) == (HOUR, False, 0)
    (decision,) = decide({}, [window(0, "COMPLETE", warehouse=0)], now_ms=LATER)
    assert decision.is_open


def test_hours_come_in_order_and_apart() -> None:
    windows = [
        AuditedWindow.of({"window_start_ms": START + HOUR_MS, "verdict": "COMPLETE", "tiers": {"warehouse": 2}}),
        window(0),
    ]
    assert [(one.hour, one.is_open) for one in decide({HOUR: 5, HOUR + 1: 2}, windows, now_ms=LATER)] == [
        (HOUR, True),
        (HOUR + 1, True),
    ]


NO_WINDOWS: list[Any] = [
    {},
    5,
    {"window_start_ms": "x", "verdict": "OPEN", "tiers": {}},
    {"window_start_ms": 1, "verdict": "OPEN", "tiers": None},
]


@pytest.mark.parametrize("words", NO_WINDOWS)
def test_an_answer_that_is_no_window_is_a_clear_error(words: Any) -> None:
    with pytest.raises(WarehouseError, match="no list of windows"):
        AuditedWindow.of(words)
