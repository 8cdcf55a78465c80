"""What a run holds is waited for, mentioned or not, and nothing else: the rows of issue 26, section 1, on the model."""

import pytest

from headrace.audit.model.build_facts import held_windows
from headrace.audit.model.checks.producers import PRESUMED_DEAD_MS
from headrace.audit.model.facts import Kind
from headrace.audit.model.messages import Hold

from ..stories import DEADLINE_MS, TOPIC, Story, W

NOW = 1_000 * W
LATE = DEADLINE_MS + 1_000


def story() -> Story:
    """The application `other` has five events everywhere in window 1, and has closed."""
    told = Story(("producer", "live"), now_ms=NOW).producer("other", ids=(8,), windows={1: {0: 5}}, closed=True)
    return told.read("live", 100, {1: {8: 5}})


def again(told: Story) -> Story:
    """The live log is read to its end again."""
    return told.wait(1).read("live", 100)


def test_a_run_that_died_with_events_in_memory_keeps_the_windows_that_it_held_and_no_others() -> None:
    """Fault: killed with events in memory, in a window nobody else mentions: the hour was COMPLETE."""
    told = story().producer("shop", holds={1: 3, 2: 4}, past_ms=W)
    assert held_windows(told.books, TOPIC) == {W, 2 * W}
    again(told.wait(LATE))
    for number in (1, 2):
        verdict = told.verdict(number)
        assert verdict.kind is Kind.UNKNOWN
        assert verdict.silent == ("producer:shop",)
    assert "4 records were under way at its last report" in told.verdict(2).reason
    story_of_three = told.producer("third", ids=(9,), windows={3: {0: 1}}, closed=True).read("live", 200, {3: {9: 1}})
    assert story_of_three.verdict(3).kind is Kind.COMPLETE, "it never held this one"


@pytest.mark.situation("producers", "an application is frozen for hours, continues and is killed")
def test_a_run_that_was_frozen_for_hours_and_then_took_events_is_waited_for_where_it_says_so() -> None:
    """Fault: frozen past `presumed_dead_ms`, then killed: silence was taken for a seal."""
    told = again(story().producer("shop", holds={0: 0}).wait(2 * PRESUMED_DEAD_MS))
    assert told.verdict(1).kind is Kind.COMPLETE
    told.producer("shop", holds={1: 6})
    assert again(told).verdict(1).kind is Kind.OPEN
    assert again(told.wait(2 * PRESUMED_DEAD_MS)).verdict(1).kind is Kind.UNKNOWN, "for ever, or until somebody retires it"


def test_late_events_of_a_window_that_was_sealed_are_waited_for() -> None:
    """Fault: late events accepted by `log()`, process killed before sending: a seal never goes back."""
    told = again(story().producer("shop", holds={50: 0}, past_ms=40 * W))
    assert told.verdict(1).kind is Kind.COMPLETE
    told.producer("shop", holds={1: 7, 50: 0}, past_ms=40 * W)
    assert again(told).verdict(1).kind is Kind.OPEN
    assert again(told.wait(LATE)).verdict(1).kind is Kind.UNKNOWN


def test_a_clock_that_was_ahead_and_came_back_seals_nothing_that_is_held() -> None:
    """Fault: host clock two days ahead and back, 9 events, kill -9: seals follow the wall clock."""
    ahead = 288
    told = story().producer("shop", holds={ahead: 0}, past_ms=(ahead - 1) * W)
    told.producer("shop", holds={1: 9, ahead: 0}, past_ms=(ahead - 1) * W)
    assert again(told.wait(LATE)).verdict(1).kind is Kind.UNKNOWN


def test_a_window_is_let_go_of_in_the_report_that_tells_the_end_of_its_last_event() -> None:
    told = story().producer("shop", ids=(7,), holds={1: 2})
    told.producer("shop", ids=(7,), windows={1: {0: 2}}, holds={2: 0})
    told.read("live", 200, {1: {7: 2}}).wait(LATE)
    assert again(told).verdict(1).kind is Kind.COMPLETE
    assert told.verdict(1).tiers["live"] == 7
    assert held_windows(told.books, TOPIC) == {2 * W}
    assert told.verdict(2).kind is Kind.UNKNOWN


def test_while_a_run_is_heard_it_is_waited_for_as_far_as_it_has_not_moved_past() -> None:
    told = again(story().producer("shop", holds={5: 0}))
    assert told.verdict(1).kind is Kind.OPEN, "late events may come"
    again(told.producer("shop", holds={5: 0}, past_ms=2 * W))
    assert told.verdict(1).kind is Kind.COMPLETE


def test_a_report_that_comes_out_of_order_takes_nothing_back() -> None:
    told = story().producer("shop", holds={1: 2}, sequence=0).producer("shop", holds={}, sequence=2)
    told.producer("shop", holds={1: 2}, sequence=1)
    assert again(told.wait(LATE)).verdict(1).kind is Kind.COMPLETE


def test_what_was_held_before_a_report_that_never_arrived_is_there_until_it_arrives() -> None:
    """Found by the search, seed 1968: the end of the last event stood in the lost report, and nobody mentioned the window."""
    told = story().producer("shop", holds={3: 1}, sequence=0).producer("shop", holds={}, closed=True, sequence=2)
    assert held_windows(told.books, TOPIC) == {3 * W}
    assert again(told).verdict(3).kind is Kind.UNKNOWN
    told.producer("shop", holds={}, windows={3: {0: 1}}, ids=(7,), sequence=1)
    assert held_windows(told.books, TOPIC) == set()


def test_a_closed_run_holds_nothing() -> None:
    told = again(story().producer("shop", holds={1: 2}).producer("shop", holds={1: 2}, closed=True))
    assert told.verdict(1).kind is Kind.COMPLETE
    assert held_windows(told.books, TOPIC) == set()


def test_a_retired_run_makes_accepted_in_the_windows_that_it_held_and_the_number_is_told() -> None:
    told = story().producer("shop", holds={1: 3}, past_ms=0).wait(LATE).retire("shop")
    verdict = again(told).verdict(1)
    assert verdict.kind is Kind.ACCEPTED
    assert verdict.retired == ("producer:shop, retired by anna: its host burned; 3 records were under way at its last report",)
    told.producer("third", ids=(9,), windows={3: {0: 1}}, closed=True).read("live", 200, {3: {9: 1}})
    assert told.verdict(3).kind is Kind.COMPLETE, "not for ever after"
    told.producer("shop", holds={1: 3})
    assert again(told).verdict(1).kind is Kind.OPEN, "void, for it speaks"


def test_an_earlier_run_of_an_instance_keeps_what_it_held() -> None:
    told = story().producer("shop", epoch=1, holds={1: 3})
    told.producer("shop", epoch=2, holds={}, closed=True)
    verdict = again(told).verdict(1)
    assert verdict.kind is Kind.UNKNOWN
    assert "an earlier run of producer:shop (epoch 1) ended without sealing; 3 records were under way" in verdict.reason


@pytest.mark.situation(
    "producers",
    "an application is killed while the audit topic is away",
    shown="UNKNOWN in the windows that it had not moved past",
    when="its deadline, once the topic is back",
    do="`retire-producer`",
)
def test_a_run_that_was_not_heard_after_an_outage_keeps_what_it_had_not_sealed_by_then() -> None:
    told = story().producer("shop", holds={5: 0}, past_ms=0).wait(1_000)
    told.books.cut_off(told.now_ms - DEADLINE_MS, 2 * W, told.journal)
    again(told.wait(LATE))
    verdict = told.verdict(1)
    assert verdict.kind is Kind.UNKNOWN
    assert "has not reported since the audit topic was unavailable" in verdict.reason
    told.producer("third", ids=(9,), windows={3: {0: 1}}, closed=True).read("live", 200, {3: {9: 1}})
    assert told.verdict(3).kind is Kind.COMPLETE, "by then it would have been heard, or was dead"
    again(told.producer("shop", holds={5: 0}, past_ms=2 * W))
    assert told.verdict(1).kind is Kind.COMPLETE


def test_a_run_that_was_dead_long_before_an_outage_has_nothing_to_do_with_it() -> None:
    told = story().producer("shop", holds={5: 0}).wait(10 * LATE)
    told.books.cut_off(told.now_ms - DEADLINE_MS, 2 * W, told.journal)
    assert again(told.wait(LATE)).verdict(1).kind is Kind.COMPLETE


def test_of_a_run_that_holds_years_the_ends_and_the_hours_of_what_is_known_are_looked_at() -> None:
    told = story().producer("shop", holds={})
    far = 1_000_000 * W
    told.again(sequence=9, holds=(Hold(0, far),))
    held = held_windows(told.books, TOPIC)
    assert {0, W, 6 * W, far - W} <= held
    assert len(held) < 20
