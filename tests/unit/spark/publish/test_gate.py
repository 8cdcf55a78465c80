"""An hour is published when it is over and balanced; published rows go only when they themselves prove wrong."""

from typing import Any

import pytest

from headrace.spark.errors import WarehouseError
from headrace.spark.publish.gate import (
    HOUR_MS,
    AuditedWindow,
    HourDecision,
    HourFacts,
    complete_through,
    decide,
    empty_hours,
)

HOUR = 400_000
START = HOUR * HOUR_MS
LATER = START + 10 * HOUR_MS


def window(
    number: int = 0, verdict: str = "COMPLETE", warehouse: int | None = 5, reason: str = "", **words: Any
) -> AuditedWindow:
    start = START + number * 600_000
    words = {"window_start_ms": start, "verdict": verdict, "tiers": {"warehouse": warehouse}, "reason": reason, **words}
    return AuditedWindow.of(words)


def the_hour(rows: int, *windows: AuditedWindow, now_ms: int = LATER, **words: Any) -> HourDecision:
    despite = words.pop("despite", ())
    decision = decide(HourFacts(hour=HOUR, row_count=rows, **words), windows, Readers(), despite=despite, now_ms=now_ms)
    assert (decision.hour, decision.row_count) == (HOUR, rows)
    return decision


class Readers:
    """Readers see offsets 0 to 9 of partition 0; it was loaded up to 20."""

    def count(self, partition: int, first_offset: int, count: int) -> int:
        return max(0, min(10, first_offset + count) - max(0, first_offset)) if partition == 0 else 0

    def loaded_to(self, partition: int) -> int:
        return 20 if partition == 0 else 0

    def has_own_files(self) -> bool:
        return False


def differs(kind: str, first: int, count: int = 1, tier: str = "warehouse", partition: int = 0) -> dict[str, Any]:
    records = [{"kind": kind, "first_offset": first, "count": count}]
    return {"tier": tier, "partition": partition, kind: count, "records": records, "more": 0}


def test_an_hour_whose_windows_are_complete_is_published() -> None:
    decision = the_hour(10, window(0), window(3))
    assert (decision.action, decision.may_change_soon, decision.is_settled) == ("publish", False, True)


def test_a_window_accepted_by_somebodys_word_opens_the_hour_and_is_named() -> None:
    decision = the_hour(10, window(0), window(3, "ACCEPTED", reason="producer:app, retired by anna: its host burned"))
    assert (decision.action, decision.verdict) == ("publish", "ACCEPTED")
    assert decision.reason == "1 of 2 windows are ACCEPTED, the others COMPLETE"


@pytest.mark.parametrize("verdict", ["INCOMPLETE", "DOUBLED", "ALTERED", "UNKNOWN", "OPEN", "ACCOUNTED", "SOMETHING_NEW"])
def test_one_window_that_is_not_complete_keeps_the_hour_shut(verdict: str) -> None:
    decision = the_hour(10, window(0), window(1, verdict, reason="because"))
    assert decision.action == "shut"
    assert verdict in decision.reason
    assert "because" in decision.reason
    assert decision.may_change_soon == (verdict == "OPEN")


def test_an_hour_of_events_lost_by_name_is_published_only_where_the_settings_allow_that_loss() -> None:
    """Fault: all 1,000 events `dropped_buffer_full`, or `send_failed`: COMPLETE with zeros, hour opened."""
    lost = window(0, "ACCOUNTED", warehouse=0, accounted={"dropped_buffer_full": 1_000})
    decision = the_hour(0, lost)
    assert (decision.action, "1000 dropped_buffer_full" in decision.reason) == ("shut", True)
    sampled = window(0, "ACCOUNTED", accounted={"sampled": 3})
    assert the_hour(5, sampled).action == "shut"
    assert (the_hour(5, sampled, despite={"sampled"}).action, the_hour(5, sampled, despite={"sampled"}).verdict) == (
        "publish",
        "ACCOUNTED",
    )
    both = window(0, "ACCOUNTED", accounted={"sampled": 3, "expired": 1})
    assert the_hour(5, both, despite={"sampled"}).action == "shut"


def test_the_running_hour_stays_shut_without_waiting() -> None:
    decision = the_hour(5, window(0), now_ms=START + HOUR_MS - 1)
    assert (decision.action, decision.may_change_soon, decision.reason) == ("shut", False, "the hour has not ended")
    assert the_hour(5, window(0), now_ms=START + HOUR_MS).action == "publish"


def test_rows_that_the_audit_does_not_know_keep_the_hour_shut() -> None:
    assert the_hour(5).reason == "it has 5 rows and the audit knows no window of it"
    decision = the_hour(6, window(0))
    assert (decision.action, decision.may_change_soon) == ("shut", True)
    assert decision.reason == "it has 6 rows and the audit was told of 5"


def test_an_unreported_warehouse_tier_may_change_soon() -> None:
    decision = the_hour(5, window(0, "UNKNOWN", warehouse=None))
    assert (decision.action, decision.may_change_soon) == ("shut", True)


def test_files_that_changed_since_the_count_and_rows_that_differ_keep_the_hour_shut() -> None:
    assert "have changed since they were counted" in the_hour(5, window(0), is_counted=False).reason
    decision = the_hour(5, window(0), differs=True)
    assert (decision.action, decision.may_change_soon) == ("shut", True)
    assert the_hour(5, window(0, "ACCEPTED", erased=2), differs=True).action == "publish"


def test_an_hour_with_windows_and_no_rows_is_decided_too() -> None:
    assert the_hour(0, window(0, "INCOMPLETE", warehouse=0)).action == "shut"
    assert the_hour(0, window(0, warehouse=0)).action == "publish"


@pytest.mark.parametrize("verdict", ["OPEN", "UNKNOWN", "INCOMPLETE"])
def test_late_events_leave_published_rows_and_wait(verdict: str) -> None:
    decision = the_hour(12, window(0, verdict, warehouse=12, reason="producer x has not sealed"), is_published=True, late=2)
    assert (decision.action, decision.is_settled) == ("keep", False)
    assert decision.reason.startswith("2 late, pending: 1 of 1 windows are not COMPLETE")
    assert "; first at 2015-08-19 16:00 UTC: producer x has not sealed" in decision.reason
    assert the_hour(12, window(0, warehouse=12), is_published=True, late=2).action == "publish"


SPOILED = {
    "a row that readers see is altered": differs("altered", 4),
    "a row that readers see came twice": differs("doubled", 4, tier="live"),
    "a record that was loaded then is not among the rows": differs("missing", 12),
}
NOT_SPOILED = {
    "a late record is missing": differs("missing", 25),
    "a late record came twice": differs("doubled", 25, tier="live"),
    "the log behind a row that readers see has gone": differs("missing", 4, tier="offline"),
    "a record that is no row, but quarantined, is lost in quarantine": differs("missing", 12, tier="quarantine"),
    "a record never had an offset": {
        **differs("missing", 4, tier="live"),
        "records": [{"kind": "missing", "first_offset": None}],
    },
    "another partition, of which nothing was published": differs("missing", 4, partition=7),
}


@pytest.mark.parametrize("what", SPOILED)
def test_published_rows_that_prove_wrong_are_withdrawn(what: str) -> None:
    decision = the_hour(10, window(0, "INCOMPLETE", warehouse=10, differences=[SPOILED[what]]), is_published=True)
    assert (decision.action, decision.reason.startswith("published rows are ")) == ("withdraw", True), what


@pytest.mark.parametrize("what", NOT_SPOILED)
def test_what_does_not_concern_published_rows_withdraws_nothing(what: str) -> None:
    decision = the_hour(10, window(0, "INCOMPLETE", warehouse=10, differences=[NOT_SPOILED[what]]), is_published=True)
    assert (decision.action, decision.is_settled) == ("keep", False), what


def test_a_record_that_never_came_to_the_live_log_unsettles_a_published_hour_and_withdraws_nothing() -> None:
    """It has no offset: every row that was published is right, and the hour says that one never came."""
    lost = {"tier": "live", "partition": 0, "missing": 3, "records": [{"kind": "missing", "first_sequence": 7, "count": 3}]}
    hour = window(0, "INCOMPLETE", warehouse=10, missing=3, differences=[lost], reason="live lacks 3")
    decision = the_hour(10, hour, is_published=True)
    assert (decision.action, decision.is_settled) == ("keep", False)
    assert decision.reason.startswith("published as it was proven; since then: 1 of 1 windows are not COMPLETE (INCOMPLETE 1)")
    assert complete_through({HOUR - 1: True, HOUR: decision.is_settled}) == HOUR - 1


def test_differing_records_that_the_audit_does_not_name_are_counted_in_words() -> None:
    """Fault: the audit names 100 ranges of a difference, and the gate did not say that there are more."""
    cut = differs("missing", 25) | {"missing": 41, "more": 40}
    decision = the_hour(10, window(0, "INCOMPLETE", warehouse=10, missing=41, differences=[cut]), is_published=True)
    assert decision.action == "keep"
    assert "and 40 more records differ that the audit does not name" in decision.reason
    late = the_hour(12, window(0, "INCOMPLETE", warehouse=12, differences=[cut]), is_published=True, late=2)
    assert "and 40 more records differ" in late.reason
    wrong = the_hour(10, window(0, "ALTERED", warehouse=10, altered=44, differences=[differs("altered", 4)]), is_published=True)
    assert (wrong.action, wrong.reason.endswith("is ALTERED, and 43 more of its records differ")) == ("withdraw", True)


def test_a_row_behind_which_the_log_has_gone_is_no_double() -> None:
    gone = [differs("doubled", 4), differs("missing", 4, tier="offline")]
    assert the_hour(10, window(0, "INCOMPLETE", warehouse=10, differences=gone), is_published=True).action == "keep"


def test_an_erasure_by_somebodys_word_stays_published_and_says_so() -> None:
    accepted = window(0, "ACCEPTED", warehouse=10, erased=2)
    assert the_hour(10, accepted, is_published=True, removed=2).reason == "ERASED 2"
    decision = the_hour(10, window(0, warehouse=10), is_published=True, removed=2)
    assert (decision.action, decision.is_settled) == ("keep", False)
    assert decision.reason == "2 rows were removed by others: they are not added again"


def test_late_rows_of_an_hour_that_lost_others_go_out_and_have_no_verdict_of_the_audit() -> None:
    """Fault: late is asked before removed: COMPLETE with 5 of 25 rows."""
    late = the_hour(25, window(0, warehouse=25), is_published=True, late=5, removed=20, after_count=5)
    assert (late.action, late.verdict, late.is_settled) == ("publish", "REMOVED", False)
    assert late.reason.endswith("20 of 25 rows were removed by others: they are not added again")
    erased = the_hour(25, window(0, "ACCEPTED", warehouse=25, erased=20), is_published=True, late=5, removed=20, after_count=5)
    assert (erased.action, erased.verdict, erased.is_settled) == ("publish", "ERASED", True)
    whole = the_hour(25, window(0, warehouse=25), is_published=True, late=5, after_count=25)
    assert (whole.action, whole.verdict, whole.is_settled) == ("publish", "COMPLETE", True)


def test_only_rows_that_readers_see_twice_or_that_are_of_no_record_withdraw_an_hour() -> None:
    """Fault: a file added twice on `loads` withdrew a sound hour of `main`."""
    twice = differs("doubled", 4)
    assert the_hour(20, window(0, "DOUBLED", warehouse=20, differences=[twice]), is_published=True).action == "keep"
    stray = differs("doubled", 4)
    stray["records"][0]["stray"] = True
    assert the_hour(11, window(0, "DOUBLED", warehouse=11, differences=[stray]), is_published=True).action == "withdraw"
    elsewhere = differs("doubled", 5_000)
    elsewhere["records"][0]["stray"] = True
    assert the_hour(11, window(0, "DOUBLED", warehouse=11, differences=[elsewhere]), is_published=True).action == "keep"


def test_hours_without_a_record_between_two_known_ones_are_empty_once_the_later_is_proven() -> None:
    assert empty_hours({5, 9}, {9}) == [6, 7, 8]
    assert empty_hours({5, 9}, {5}) == []
    assert empty_hours({5, 9_000}, {9_000}) == []
    assert empty_hours({-1, 9}, {9}) == []


def test_complete_through_ends_before_the_first_hour_that_is_not_settled() -> None:
    assert complete_through({1: True, 2: True, 3: False, 4: True}) == 2
    assert complete_through({1: False, 2: True}) is None
    assert complete_through({}) is None


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
