"""Verdicts as sentences: who must have spoken, who is silent, what differs."""

from dataclasses import replace

import pytest

from headrace.audit.model.checks.producers import PRESUMED_DEAD_MS
from headrace.audit.model.codec import decode, encode
from headrace.audit.model.facts import Kind
from headrace.audit.model.messages import RangeReport, RangeWindow, SentRanges, Stretch
from headrace.audit.model.tiers import CHAIN

from ..stories import DEADLINE_MS, TOPIC, Story, W, crc_of

LONG_MS = DEADLINE_MS + 1_000


def complete() -> Story:
    return Story().producer(windows={0: {0: 5}}, closed=True).all_tiers(100, {0: 5})


def test_a_window_that_every_tier_holds_is_complete() -> None:
    verdict = complete().verdict()
    assert verdict.kind is Kind.COMPLETE
    assert dict(verdict.tiers) == dict.fromkeys(CHAIN, 5)
    assert (verdict.missing, verdict.doubled, verdict.first_bad_tier, list(verdict.silent)) == (0, 0, None, [])


def test_an_unreported_tier_is_null_and_never_zero() -> None:
    story = Story().producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    verdict = story.verdict()
    assert verdict.kind is Kind.OPEN
    assert dict(verdict.tiers) == {"producer": 5, "live": 5, "mirror": None, "offline": None, "warehouse": None}


def test_a_tier_that_has_passed_the_window_and_found_none_has_zero() -> None:
    story = Story().producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}}).tell("mirror", 0, 100)
    assert story.verdict().tiers["mirror"] == 0


def test_a_loss_names_its_number_and_the_first_tier_that_differs() -> None:
    story = Story().producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}}).tell("mirror", 0, 100, {0: 5})
    story.read("offline", 100, {0: {7: 3}}).tell("warehouse", 0, 100, {0: 3})
    verdict = story.verdict()
    assert (verdict.kind, verdict.missing, verdict.first_bad_tier) == (Kind.INCOMPLETE, 2, "offline")


def test_a_loss_in_one_partition_is_not_hidden_by_a_double_in_another() -> None:
    story = Story(("producer", "live")).producer(windows={0: {0: 5, 1: 5}}, closed=True)
    story.read("live", 100, {0: {7: 4}}, partition=0).read("live", 100, {0: {7: 6}}, partition=1)
    verdict = story.verdict()
    assert (verdict.kind, verdict.missing, verdict.doubled) == (Kind.INCOMPLETE, 1, 1)


def test_a_loss_of_one_producer_is_not_hidden_by_a_double_of_another() -> None:
    story = Story(("producer", "live")).producer("a", ids=(7,), windows={0: {0: 5}}, closed=True)
    story.producer("b", ids=(8,), windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 4, 8: 6}})
    verdict = story.verdict()
    assert (verdict.kind, verdict.missing, verdict.doubled) == (Kind.INCOMPLETE, 1, 1)


def test_more_than_came_in_is_doubled() -> None:
    story = Story(("producer", "live")).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 6}})
    verdict = story.verdict()
    assert (verdict.kind, verdict.doubled, verdict.first_bad_tier) == (Kind.DOUBLED, 1, "live")


def test_quarantined_records_are_part_of_the_equation() -> None:
    story = Story(("producer", "live", "warehouse")).producer(windows={0: {0: 5}}, losses={0: {"quarantined": 2}}, closed=True)
    story.read("live", 100, {0: {7: 5}}).tell("warehouse", 0, 100, {0: 4}, quarantined=1)
    verdict = story.verdict()
    assert verdict.kind is Kind.COMPLETE
    assert verdict.quarantined == 3


def test_a_window_of_which_all_was_quarantined_exists_and_is_complete() -> None:
    story = Story().producer(windows={1: {0: 5}}, losses={0: {"quarantined": 2}}, closed=True).all_tiers(100, {1: 5})
    verdict = story.verdict()
    assert (verdict.kind, verdict.quarantined) == (Kind.COMPLETE, 2)
    assert set(verdict.tiers.values()) == {0}


def test_records_of_producers_that_do_not_report_are_unaudited_and_not_extra() -> None:
    story = Story().producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5, -1: 2, 99: 1}})
    story.tell("mirror", 0, 100, {0: 8}).read("offline", 100, {0: {0: 8}}).tell("warehouse", 0, 100, {0: 8})
    verdict = story.verdict()
    assert (verdict.kind, verdict.doubled, verdict.unaudited) == (Kind.COMPLETE, 0, 3)
    assert (verdict.tiers["producer"], verdict.tiers["live"]) == (5, 8)


def test_a_topic_whose_producers_never_announced_themselves_is_unknown_after_the_deadline() -> None:
    story = Story().read("live", 100, {0: {-1: 5}})
    assert story.verdict().kind is Kind.OPEN
    verdict = story.wait(LONG_MS).verdict()
    assert (verdict.kind, list(verdict.silent)) == (Kind.UNKNOWN, ["producer"])


def test_a_producer_that_has_not_sealed_keeps_the_window_open_while_it_beats() -> None:
    story = Story().producer(windows={0: {0: 5}}).all_tiers(100, {0: 5}).beat(for_ms=60_000)
    assert story.verdict().kind is Kind.OPEN


def test_a_producer_that_was_killed_makes_its_windows_unknown_and_is_named() -> None:
    story = Story().producer("a", windows={0: {0: 5}}, closed=True).producer("b", ids=(8,), windows={0: {0: 1}})
    story.all_tiers(100, {0: 5}).wait(LONG_MS)
    verdict = story.verdict()
    assert verdict.kind is Kind.UNKNOWN
    assert list(verdict.silent) == ["producer:b"]
    assert "producer:b has not sealed" in verdict.reason


def test_a_window_that_every_producer_has_moved_past_is_decided_while_they_go_on() -> None:
    story = Story().producer(windows={0: {0: 5}, 1: {0: 2}}, past_ms=W).all_tiers(100, {0: 5, 1: 2})
    assert story.verdict(0).kind is Kind.COMPLETE
    assert story.verdict(1).kind is Kind.OPEN


def test_the_live_log_must_be_read_after_the_seal_arrived() -> None:
    story = Story(("producer", "live")).read("live", 100, {0: {7: 5}}).producer(windows={0: {0: 5}}, closed=True)
    assert story.verdict().kind is Kind.OPEN
    assert story.wait(LONG_MS).verdict().silent == ("live",)
    assert story.read("live", 100).verdict().kind is Kind.COMPLETE


def test_a_late_event_opens_a_window_again() -> None:
    story = complete()
    story.producer(windows={0: {0: 6}}, epoch=2, closed=True)
    assert story.verdict().kind is Kind.OPEN
    story.read("live", 130, {0: {7: 6}}).tell("mirror", 100, 130, {0: 6}).read("offline", 130, {0: {7: 6}})
    assert story.verdict().kind is Kind.OPEN
    assert story.tell("warehouse", 100, 130, {0: 6}).verdict().kind is Kind.COMPLETE


def test_a_late_event_of_a_producer_that_goes_on_is_not_doubled_before_it_could_be_told() -> None:
    """It is in the live log as soon as it is written; the report that counts it comes a beat later."""
    story = Story(("producer", "live")).producer(windows={0: {0: 5}}, past_ms=W).read("live", 100, {0: {7: 5}})
    assert story.verdict().kind is Kind.COMPLETE
    story.read("live", 120, {0: {7: 1}})
    assert story.verdict().kind is Kind.OPEN
    told = story.wait(1_000).producer(windows={0: {0: 1}}).read("live", 120).verdict()
    assert told.kind is Kind.COMPLETE
    story.read("live", 140, {0: {7: 2}}).beat(for_ms=DEADLINE_MS + 5_000)
    assert (story.verdict().kind, story.verdict().doubled) == (Kind.DOUBLED, 2)


def test_a_tier_that_stands_still_past_its_deadline_is_named_and_one_behind_it_is_not() -> None:
    story = Story().producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}}).tell("mirror", 0, 60, {0: 3})
    assert story.wait(DEADLINE_MS - 1_000).verdict().kind is Kind.OPEN
    verdict = story.wait(2_000).verdict()
    assert (verdict.kind, list(verdict.silent)) == (Kind.UNKNOWN, ["mirror"])
    assert verdict.tiers["mirror"] == 3


def test_a_tier_that_moves_is_not_silent_however_late_it_is() -> None:
    story = Story().producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    for at in range(8):
        story.wait(DEADLINE_MS - 1_000).tell("mirror", at * 10, at * 10 + 10)
        assert story.verdict().kind is Kind.OPEN


def test_the_warehouse_has_its_own_deadline() -> None:
    story = Story().producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}}).tell("mirror", 0, 100, {0: 5})
    story.read("offline", 100, {0: {7: 5}})
    assert story.wait(LONG_MS).verdict().kind is Kind.OPEN
    assert story.wait(100_000).verdict().silent == ("warehouse",)


def test_an_expected_tier_that_never_announced_itself_makes_the_window_unknown() -> None:
    story = Story((*CHAIN, "consumer:rates")).producer(windows={0: {0: 5}}, closed=True).all_tiers(100, {0: 5})
    assert story.verdict().kind is Kind.OPEN
    assert story.wait(LONG_MS).verdict().silent == ("consumer:rates",)


def test_a_group_that_reports_has_a_row_of_what_lies_behind_its_beginning_and_no_part_in_the_verdict() -> None:
    """Fault: it took part in the verdict because it had reported once, so a service on trial shut hours."""
    story = complete().tell("consumer:late", 100, 100)
    assert (story.verdict(0).kind, story.verdict(0).sinks) == (Kind.COMPLETE, {})
    story.producer("b", ids=(8,), windows={1: {0: 3}}, closed=True).read("live", 150, {1: {8: 3}})
    story.tell("mirror", 100, 150, {1: 3}).read("offline", 150, {1: {8: 3}}).tell("warehouse", 100, 150, {1: 3})
    assert (story.verdict(1).kind, story.verdict(1).sinks["consumer:late"].kind) == (Kind.COMPLETE, Kind.OPEN)
    verdict = story.tell("consumer:late", 100, 150, {1: 2}).verdict(1)
    assert (verdict.kind, verdict.missing, verdict.first_bad_tier) == (Kind.COMPLETE, 0, None)
    assert (verdict.sinks["consumer:late"].kind, verdict.sinks["consumer:late"].missing) == (Kind.INCOMPLETE, 1)


def test_a_gap_in_what_a_tier_told_is_never_complete() -> None:
    story = Story(("producer", "live", "mirror")).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    story.tell("mirror", 0, 40, {0: 2}).tell("mirror", 60, 100, {0: 3})
    assert story.verdict().kind is Kind.OPEN
    assert story.wait(LONG_MS).verdict().kind is Kind.UNKNOWN


def test_a_gap_leaves_windows_that_lie_elsewhere_alone() -> None:
    story = Story(("producer", "live", "mirror")).producer(windows={0: {0: 5}, 1: {0: 2}}, closed=True)
    story.read("live", 100, {0: {7: 5}}).read("live", 200, {1: {7: 2}})
    story.tell("mirror", 0, 40, {0: 2}).tell("mirror", 60, 100, {0: 3}).tell("mirror", 100, 200, {1: 2}).wait(LONG_MS)
    assert story.verdict(0).kind is Kind.UNKNOWN
    assert story.verdict(1).kind is Kind.COMPLETE


def test_a_tier_that_is_ahead_of_the_one_before_it_is_not_called_doubled() -> None:
    """The mirror may have reported what the audit's own reader of the live log has yet to read."""
    story = Story(("producer", "live", "mirror")).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    story.tell("mirror", 0, 100, {0: 5})
    story.tell_range("mirror", 100, 120, {0: RangeWindow(held=(Stretch(100, 1, crc_of(-1, 0, 0)),))})
    assert story.verdict().kind is Kind.OPEN
    assert story.read("live", 120, {0: {-1: 1}}).verdict().kind is Kind.COMPLETE


def test_a_run_that_ended_without_sealing_leaves_unknown_what_it_could_have_written_and_no_more() -> None:
    """Its acknowledged and unreported records make the live log hold more than the books: no proof of doubles."""
    start = 1_000 * W
    story = Story(("producer", "live"), now_ms=start).producer(windows={0: {0: 3}}, epoch=start - 5)
    story.producer(windows={2_000: {0: 4}}, epoch=start, ids=(8,), closed=True)
    story.read("live", 100, {0: {7: 5}, 2_000: {8: 4}})
    verdict = story.verdict(0)
    assert (verdict.kind, verdict.doubled) == (Kind.UNKNOWN, 0)
    assert "ended without sealing" in verdict.reason
    assert story.verdict(2_000).kind is Kind.COMPLETE


def test_the_counts_of_an_instance_s_epochs_add_up() -> None:
    story = Story(("producer", "live")).producer(windows={0: {0: 3}}, epoch=1, closed=True)
    story.producer(windows={0: {0: 4}}, epoch=2, closed=True).read("live", 100, {0: {7: 7}})
    verdict = story.verdict()
    assert (verdict.kind, verdict.tiers["producer"]) == (Kind.COMPLETE, 7)


@pytest.mark.situation(
    "producers",
    "an SDK of an earlier version stops reporting",
    shown="UNKNOWN where it wrote; ACCEPTED, never COMPLETE, in later windows",
    when="its deadline; an hour",
    do="`retire-producer`",
)
def test_a_dead_producer_does_not_shut_the_future() -> None:
    now = 1_000 * W
    story = Story(("producer", "live"), now_ms=now).producer("dead", past_ms=990 * W)
    story.wait(PRESUMED_DEAD_MS + 60_000).producer("app", ids=(8,), windows={995: {0: 1}, 1_003: {0: 2}}, closed=True)
    story.read("live", 100, {995: {8: 1}, 1_003: {8: 2}})
    assert story.verdict(995).kind is Kind.UNKNOWN
    later = story.verdict(1_003)
    assert later.kind is Kind.ACCEPTED, "nobody can know what a run held that never says it"
    assert later.retired == ("producer:dead, presumed dead: it was silent for an hour and never said what it held",)


def test_a_lost_report_makes_the_run_s_windows_unknown_until_it_is_said_again() -> None:
    story = Story(("producer", "live")).producer(windows={0: {0: 3}})
    lost = story.send(0, 2)
    story.producer(skip=1, closed=True).read("live", 100, {0: {7: 5}})
    verdict = story.verdict()
    assert (verdict.kind, list(verdict.silent)) == (Kind.UNKNOWN, ["producer:app"])
    assert "1 of the reports" in verdict.reason
    sent = {0: (SentRanges(partition=0, producer_id=7, producer_epoch=0, acknowledged=lost),)}
    story.producer(sent=sent, sequence=1).read("live", 100)
    assert story.verdict().kind is Kind.COMPLETE


def test_a_report_that_comes_twice_or_late_changes_nothing() -> None:
    story = Story(("producer", "live")).producer(windows={0: {0: 1}})
    first = story.last_report
    story.producer(windows={0: {0: 4}}, closed=True).read("live", 100, {0: {7: 5}})
    story.again().report(first).again(sequence=1)
    verdict = story.verdict()
    assert (verdict.kind, verdict.tiers["producer"]) == (Kind.COMPLETE, 5)


def test_records_given_up_that_arrived_after_all_are_not_doubled_and_those_that_did_not_are_lost_by_name() -> None:
    def story(arrived: int) -> Story:
        told = Story(("producer", "live")).producer(windows={0: {0: 5}}, uncertain={0: {0: 3}}, closed=True)
        return told.read("live", 100, {0: {7: arrived}})

    assert story(8).verdict().kind is Kind.COMPLETE
    for arrived in (5, 6):
        verdict = story(arrived).verdict()
        assert (verdict.kind, dict(verdict.accounted)) == (Kind.ACCOUNTED, {"send_failed": 8 - arrived})
    assert (story(9).verdict().kind, story(9).verdict().doubled) == (Kind.DOUBLED, 1)
    assert (story(4).verdict().kind, story(4).verdict().missing) == (Kind.INCOMPLETE, 1)


def test_a_producer_that_the_audit_may_not_have_heard_of_yet_keeps_the_window_open() -> None:
    """It announces itself before it writes; so the audit topic must be read at least up to when the log was counted."""
    story = Story(("producer", "live")).producer(windows={0: {0: 5}}, closed=True)
    story.heard_ms = story.now_ms
    story.wait(10).read("live", 100, {0: {7: 5, 8: 1}})
    assert story.verdict().kind is Kind.OPEN
    story.heard_ms = None
    assert story.verdict().kind is Kind.COMPLETE


def test_an_audit_that_cannot_hear_says_so_instead_of_blaming_others() -> None:
    story = Story().producer(windows={0: {0: 5}})
    story.heard_ms = story.now_ms
    verdict = story.wait(DEADLINE_MS + 1_000).verdict()
    assert (verdict.kind, list(verdict.silent)) == (Kind.UNKNOWN, ["audit"])


def test_nobody_is_silent_for_the_time_in_which_the_audit_did_not_listen() -> None:
    story = Story().producer(windows={0: {0: 5}}).wait(10 * LONG_MS)
    story.listening_since_ms = story.now_ms - 1_000
    assert story.verdict().kind is Kind.OPEN


def test_redelivery_is_shown_and_is_not_doubled() -> None:
    story = complete().tell("mirror", 0, 100, {0: 5})
    verdict = story.verdict()
    assert (verdict.kind, verdict.redelivered) == (Kind.COMPLETE, 5)


def test_a_range_that_partly_overlaps_replaces_what_was_said_of_the_overlap() -> None:
    story = complete()
    story.tell("mirror", 50, 150, {0: 2})
    assert (story.verdict().kind, story.verdict().tiers["mirror"]) == (Kind.COMPLETE, 5)
    story.tell("mirror", 50, 150, {0: 1})
    assert (story.verdict().kind, story.verdict().tiers["mirror"]) == (Kind.INCOMPLETE, 4)


def test_what_is_proven_so_far_is_shown_before_the_last_word() -> None:
    story = Story().producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}}).tell("mirror", 0, 100, {0: 5})
    verdict = story.read("offline", 100, {0: {7: 3}}).verdict()
    assert (verdict.kind, verdict.missing, verdict.first_bad_tier) == (Kind.OPEN, 2, "offline")
    assert "so far proven: 2 missing" in verdict.reason


@pytest.mark.situation(
    "mirror",
    "an operator pauses the mirror",
    shown="OPEN, then UNKNOWN, `silent: mirror`; the reason quotes the operator",
    when="after the mirror's deadline",
    do="`headrace mirror resume`",
)
def test_a_tier_that_a_person_has_paused_is_named_with_that_and_not_as_silent_without_a_reason() -> None:
    story = Story().producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}}).tell("mirror", 0, 0)
    empty = RangeReport(tier="mirror", instance="m", at_ms=0, topic=TOPIC, partition=0, from_offset=0, to_offset=0)
    paused = decode(encode(replace(empty, note="paused since noon by anna: disk full")))
    assert isinstance(paused, RangeReport)
    story.books.take_range(paused, story.now_ms, story.journal)
    assert story.verdict().kind is Kind.OPEN
    verdict = story.wait(LONG_MS).verdict()
    assert (verdict.kind, list(verdict.silent)) == (Kind.UNKNOWN, ["mirror"])
    assert "paused since noon by anna: disk full" in verdict.reason
    assert "silent since" not in verdict.reason
    # The next report takes it back.
    story.books.take_range(empty, story.now_ms, story.journal)
    assert "silent since" in story.wait(LONG_MS).verdict().reason
