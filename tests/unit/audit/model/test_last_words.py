"""Whose last report a window waits for, and for what. Mutants lived here that no other test killed (experiment 0015)."""

from headrace.audit.model.facts import Kind

from ..stories import DEADLINE_MS, Story, W

LONG_MS = DEADLINE_MS + 1_000
UP_TO_LIVE = ("producer", "live")


def test_one_producer_that_is_silent_and_one_that_is_waited_for_do_not_make_up_for_each_other() -> None:
    story = Story(("producer", "live", "mirror")).producer("a", windows={0: {0: 5}}).producer("b", ids=(8,), windows={0: {0: 5}})
    story.read("live", 100, {0: {7: 5, 8: 5}}).beat("b", for_ms=LONG_MS).read("live", 100)
    verdict = story.verdict()
    assert (verdict.kind, verdict.silent) == (Kind.UNKNOWN, ("producer:a",)), "the mirror's turn has not come"


def test_what_a_silent_producer_keeps_from_being_decided_is_not_blamed_on_the_tiers_behind_it() -> None:
    story = Story(("producer", "live", "mirror")).producer(windows={0: {0: 5}}).read("live", 100, {0: {7: 5}}).wait(LONG_MS)
    assert story.verdict().silent == ("producer:app",)


def test_a_run_that_ended_without_sealing_leaves_unknown_also_a_window_that_it_never_mentioned() -> None:
    start = 1_000 * W
    story = Story(UP_TO_LIVE, now_ms=start).producer(windows={3: {0: 1}}, epoch=start - 5)
    story.producer(windows={0: {0: 3}}, epoch=start, ids=(8,), closed=True).read("live", 100, {0: {8: 3}, 3: {7: 1}})
    verdict = story.verdict(0)
    assert (verdict.kind, verdict.silent) == (Kind.UNKNOWN, ("producer:app",))


def test_a_run_that_ended_without_sealing_leaves_unknown_a_later_window_that_it_did_mention() -> None:
    start = 1_000 * W
    story = Story(UP_TO_LIVE, now_ms=start).producer(windows={2_000: {0: 1}}, epoch=start - 5)
    story.producer(windows={2_000: {0: 3}}, epoch=start, ids=(8,), closed=True).read("live", 100, {2_000: {7: 1, 8: 3}})
    verdict = story.verdict(2_000)
    assert (verdict.kind, verdict.silent) == (Kind.UNKNOWN, ("producer:app",))


def test_a_window_that_a_producer_had_sealed_before_it_was_retired_needs_nobody_s_word() -> None:
    story = Story(UP_TO_LIVE).producer(windows={0: {0: 5}}, past_ms=W).read("live", 100, {0: {7: 5}})
    story.retire().read("live", 100)
    assert story.verdict().kind is Kind.COMPLETE


def test_a_window_that_a_producer_had_not_sealed_before_it_was_retired_is_complete_by_somebody_s_word_only() -> None:
    story = Story(UP_TO_LIVE).producer(windows={0: {0: 5}}).read("live", 100, {0: {7: 5}}).retire()
    assert story.verdict().kind is Kind.OPEN, "what it wrote until then may still stand in the live log, unread"
    verdict = story.read("live", 100).verdict()
    assert verdict.kind is Kind.ACCEPTED
    assert "retired by anna" in verdict.reason


def test_the_live_log_must_be_read_after_a_seal_of_one_that_sent_nothing_of_the_window() -> None:
    story = Story(UP_TO_LIVE).producer("a", windows={0: {0: 5}}, closed=True).producer("b", ids=(8,))
    story.read("live", 100, {0: {7: 5}}).wait(1_000).producer("b", ids=(8,), closed=True)
    assert story.verdict().kind is Kind.OPEN
    assert story.wait(1).read("live", 100).verdict().kind is Kind.COMPLETE


def test_what_a_person_accepted_is_named_also_where_more_differs() -> None:
    story = Story(("producer", "live", "mirror")).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 3}})
    story.tell("mirror", 0, 100, {0: 2}).known("live", missing=2)
    verdict = story.verdict()
    assert (verdict.kind, verdict.missing, verdict.first_bad_tier) == (Kind.INCOMPLETE, 3, "live")
    assert "; accepted: " in verdict.reason


def test_a_partition_of_the_live_log_that_nobody_has_read_holds_up_the_tiers_behind_it() -> None:
    story = Story(("producer", "live", "mirror")).producer(windows={0: {0: 5, 1: 5}}, closed=True)
    story.read("live", 100, {0: {7: 5}})
    assert story.verdict().kind is Kind.OPEN
    verdict = story.wait(LONG_MS).verdict()
    assert (verdict.kind, verdict.silent) == (Kind.UNKNOWN, ("live",))
