"""A producer that died unsealed, and an operator's word on it: its windows are decided, and never look as if it had sealed."""

import pytest

from headrace.audit.model.checks.producers import PRESUMED_DEAD_MS
from headrace.audit.model.codec import decode, encode
from headrace.audit.model.errors import MalformedReport
from headrace.audit.model.facts import Kind
from headrace.audit.model.messages import Retirement
from headrace.audit.publisher import retire
from tests.support.audit_topic import AuditTopic

from ..stories import DEADLINE_MS, Story, W

LONG_MS = DEADLINE_MS + 1_000
WORD = Retirement(instance="app", epoch=1, at_ms=5, by="anna", reason="its host burned")


def died(arrived: int = 5) -> Story:
    """The producer said 5 of window 0 and died; `arrived` records of it are in the live log."""
    return Story(("producer", "live")).producer(windows={0: {0: 5}}).wait(LONG_MS).read("live", 100, {0: {7: arrived}})


def test_without_a_word_its_window_stays_unknown_for_good() -> None:
    assert died().wait(100 * PRESUMED_DEAD_MS).verdict().kind is Kind.UNKNOWN


def test_with_it_the_window_is_accepted_and_says_by_whom_and_why() -> None:
    verdict = died().retire().read("live", 101).verdict()
    assert verdict.kind is Kind.ACCEPTED
    assert verdict.kind.is_final
    assert list(verdict.retired) == ["producer:app, retired by anna: its host burned"]
    assert "producer:app, retired by anna: its host burned" in verdict.reason
    assert (verdict.missing, verdict.doubled, list(verdict.silent)) == (0, 0, [])


def test_the_live_log_must_be_read_to_its_end_after_the_word() -> None:
    assert died().retire().verdict().kind is Kind.OPEN


def test_what_it_had_acknowledged_and_never_reported_is_told_and_is_no_surplus() -> None:
    verdict = died(arrived=8).retire().read("live", 101).verdict()
    assert (verdict.kind, verdict.doubled) == (Kind.ACCEPTED, 0)
    assert "3 of its records in the live log were never reported" in verdict.reason


def test_a_loss_is_a_loss_whoever_is_retired() -> None:
    verdict = died(arrived=4).retire().read("live", 101).verdict()
    assert (verdict.kind, verdict.missing, verdict.first_bad_tier) == (Kind.INCOMPLETE, 1, "live")
    assert "retired by anna" in verdict.reason


def test_another_producers_surplus_stays_one() -> None:
    story = Story(("producer", "live")).producer("b", ids=(8,), windows={0: {0: 2}}, closed=True)
    story.producer(windows={0: {0: 5}}).wait(LONG_MS).retire().read("live", 100, {0: {7: 6, 8: 3}})
    verdict = story.wait(LONG_MS).verdict()
    assert (verdict.kind, verdict.doubled) == (Kind.DOUBLED, 1)


def test_a_window_that_began_after_it_was_last_heard_is_complete() -> None:
    story = Story(("producer", "live"), now_ms=0).producer(windows={0: {0: 5}}).wait(LONG_MS).retire()
    story.producer("b", ids=(8,), windows={9: {0: 2}}, closed=True).read("live", 100, {0: {7: 5}, 9: {8: 2}})
    assert story.verdict(9).kind is Kind.COMPLETE
    assert story.verdict(0).kind is Kind.ACCEPTED


def test_a_window_that_it_had_moved_past_is_complete() -> None:
    story = Story(("producer", "live")).producer(windows={0: {0: 5}}, past_ms=W).wait(LONG_MS).retire()
    assert story.read("live", 100, {0: {7: 5}}).verdict().kind is Kind.COMPLETE


def test_a_run_that_speaks_again_was_not_dead_and_the_word_is_void() -> None:
    story = died().retire().read("live", 101).producer()
    assert story.verdict().kind is Kind.OPEN
    assert story.producer(closed=True).read("live", 102).verdict().kind is Kind.COMPLETE


def test_an_earlier_run_that_never_sealed_is_retired_like_any_other() -> None:
    story = died().producer(epoch=2, ids=(9,), closed=True)
    assert story.read("live", 101).verdict().kind is Kind.UNKNOWN
    assert story.retire(epoch=1).read("live", 102).verdict().kind is Kind.ACCEPTED


def test_lost_reports_are_covered_too() -> None:
    story = Story(("producer", "live")).producer(windows={0: {0: 2}}).producer(skip=1, closed=True).read("live", 100, {0: {7: 5}})
    assert story.verdict().kind is Kind.UNKNOWN
    verdict = story.retire().read("live", 101).verdict()
    assert verdict.kind is Kind.ACCEPTED
    assert "3 of its records in the live log were never reported" in verdict.reason


def test_a_run_that_has_said_all_needs_nobodys_word() -> None:
    story = Story(("producer", "live")).producer(windows={0: {0: 5}}, closed=True).retire().read("live", 100, {0: {7: 5}})
    assert story.verdict().kind is Kind.COMPLETE


def test_a_run_that_nobody_announced_cannot_be_retired() -> None:
    with pytest.raises(MalformedReport, match="the run 3 of producer app, which never announced itself"):
        died().retire(epoch=3)


def test_the_word_travels_as_json_and_comes_back() -> None:
    assert decode(encode(WORD)) == WORD
    with pytest.raises(MalformedReport, match="reason"):
        decode(encode(WORD).replace(b"its host burned", b""))


def test_words_that_the_audit_would_not_read_are_refused_before_they_are_sent() -> None:
    topic = AuditTopic()
    with pytest.raises(MalformedReport, match="reason"):
        retire(topic, "app", [1], by="anna", reason="x" * 301)
    assert topic.reports == []
    retire(topic, "app", [1, 2], by="anna", reason="its host burned")
    assert [(one.epoch, one.by) for one in topic.reports if isinstance(one, Retirement)] == [(1, "anna"), (2, "anna")]
