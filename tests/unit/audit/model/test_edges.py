"""Where COMPLETE or ACCEPTED was false: strays of another topic, a tier that begins inside a window, a word on other records."""

import pytest

from headrace.audit.model.checks.digests import digest_of_tier
from headrace.audit.model.facts import Kind
from headrace.audit.model.messages import KnownDifference, ProducerReport, RangeWindow, Retirement, Stretch
from headrace.audit.model.tier_reports import LiveBatch, LogKey
from headrace.audit.model.tiers import CHAIN
from tests.support.audit_world.memory_journal import MemoryJournal

from ..stories import DEADLINE_MS, TOPIC, Story, W

LONG_MS = 10 * DEADLINE_MS
STRAY = LiveBatch(100, 5, 90, 9, 0, 0)
"""Five records under the id of a run that announced another topic."""


def with_a_stray(*, closed: bool = True) -> Story:
    """The topic's own run is complete. Run `other` announced another topic, and a batch of its stands here."""
    story = Story(("producer", "live")).producer(windows={0: {0: 5}}, closed=True)
    say(story, 0, closed=closed)
    story.read("live", 100, {0: {7: 5}})
    return story.take_read("live", 100, 105, {0: [STRAY]})


def say(story: Story, sequence: int, *, closed: bool = False) -> Story:
    return story.report(
        ProducerReport(
            instance="other", epoch=1, sequence=sequence, at_ms=0, state="closed" if closed else "open", producer_ids=(9,),
            topics=("orders",),
        )
    )  # fmt: skip


def test_a_batch_of_another_topic_under_its_producer_s_id_is_doubled_here() -> None:
    """Fault: COMPLETE with 'unaudited 5' (KAFKA-19012: a batch of topic A was written to topic B)."""
    verdict = with_a_stray().verdict()
    assert (verdict.kind, verdict.doubled, verdict.first_bad_tier, verdict.unaudited) == (Kind.DOUBLED, 5, "live", 0)
    (record,) = verdict.differences[0].records
    assert (record.instance, record.first_offset, record.count) == ("other", 100, 5)


def test_while_its_run_goes_on_it_may_yet_announce_the_topic() -> None:
    story = with_a_stray(closed=False)
    assert story.verdict().kind is Kind.OPEN
    story.wait(DEADLINE_MS + 1_000)
    say(story, 1)
    assert (story.verdict().kind, story.verdict().doubled) == (Kind.DOUBLED, 5)


def test_a_stray_of_a_run_that_died_is_unknown_until_it_is_retired() -> None:
    story = with_a_stray(closed=False).wait(LONG_MS)
    assert (story.verdict().kind, story.verdict().silent) == (Kind.UNKNOWN, ("producer:other",))
    word = Retirement(instance="other", epoch=1, at_ms=0, by="anna", reason="its host burned")
    story.books.take_retirement(word, story.now_ms, story.journal)
    assert story.verdict().kind is Kind.ACCEPTED


def test_an_id_that_nobody_announced_for_any_topic_stays_unaudited() -> None:
    story = Story(("producer", "live")).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    verdict = story.take_read("live", 100, 105, {0: [STRAY]}).verdict()
    assert (verdict.kind, verdict.unaudited) == (Kind.COMPLETE, 5)


# -- a tier that begins inside a window ------------------------------------------------------------------------------------


def complete() -> Story:
    """Five records of one window, at the offsets 0, 20, 40, 60, 80."""
    return Story(CHAIN).producer(windows={0: {0: 5}}, closed=True).all_tiers(100, {0: 5})


@pytest.mark.parametrize("tier", ["consumer:rates", "sink:rates", "sink:rates@offline"])
def test_a_tier_that_begins_inside_a_window_answers_for_what_is_behind_its_beginning(tier: str) -> None:
    """Fault: one record was lost behind it, and the window was COMPLETE."""
    story = complete().tell(tier, 30, 30).tell(tier, 30, 100, {0: 2})
    verdict = story.verdict()
    row = verdict.sinks[tier]
    assert (row.kind, row.missing) == (Kind.INCOMPLETE, 1)
    (record,) = row.differences[0].records
    assert (record.first_offset, record.count) == (80, 1)
    assert verdict.kind is Kind.COMPLETE


@pytest.mark.parametrize("tier", ["consumer:rates", "sink:rates"])
def test_a_tier_that_begins_inside_a_window_and_has_the_rest_is_complete(tier: str) -> None:
    verdict = complete().tell(tier, 30, 30).tell(tier, 30, 100, {0: 3}).verdict()
    assert (verdict.kind, verdict.sinks[tier].kind) == (Kind.COMPLETE, Kind.COMPLETE)


def test_a_tier_that_begins_inside_a_window_and_stops_there_is_named() -> None:
    story = complete().tell("consumer:rates", 30, 30).tell("consumer:rates", 30, 50, {0: 1})
    assert story.verdict().sinks["consumer:rates"].kind is Kind.OPEN
    verdict = story.wait(LONG_MS).verdict()
    assert (verdict.kind, verdict.sinks["consumer:rates"].silent) == (Kind.COMPLETE, ("consumer:rates",))


def test_a_tier_that_begins_behind_a_window_is_not_asked() -> None:
    verdict = complete().tell("consumer:rates", 100, 100).verdict()
    assert (verdict.kind, verdict.sinks) == (Kind.COMPLETE, {})


# -- an operator's word -------------------------------------------------------------------------------------------------------


def lost_at_the_mirror(story: Story, *offsets: int) -> Story:
    """The mirror has all five but those at these offsets."""
    held = [one for one in story.live[0, 0] if one.first not in offsets]
    story.live[0, 0], before = held, story.live[0, 0]
    story.tell("mirror", 0, 100, {0: 5 - len(offsets)}).read("offline", 100, {0: {7: 5 - len(offsets)}}, from_offset=0)
    story.live[0, 0] = before
    return story


def test_a_word_on_one_record_is_none_on_another() -> None:
    """Fault: known-loss for A; A came back, B was lost: ACCEPTED, for the numbers were the same."""
    story = Story(("producer", "live", "mirror", "offline")).producer(windows={0: {0: 5}}, closed=True)
    story.read("live", 100, {0: {7: 5}})
    before = lost_at_the_mirror(story, 20).verdict()
    mine = [one for one in before.differences if one.tier == "mirror"]
    word = KnownDifference(
        topic=TOPIC, window_start_ms=0, tier="mirror", kind="lost", missing=1, doubled=0, altered=0, at_ms=0, by="anna",
        reason="seen", digest=digest_of_tier(mine),
    )  # fmt: skip
    story.books.take_known_difference(word, story.journal)
    assert story.verdict().kind is Kind.ACCEPTED
    assert lost_at_the_mirror(story, 60).verdict().kind is Kind.INCOMPLETE
    assert lost_at_the_mirror(story, 20).verdict().kind is Kind.ACCEPTED


# -- a live log that lost what it held -------------------------------------------------------------------------------------


def cut_at(story: Story, offset: int, *, found_by_scan: bool = False) -> Story:
    """Live ends at `offset` now, and the audit has read it again to there."""
    story.wait(10)
    live = {0: [one for one in story.live[0, 0] if one.first < offset]}
    if found_by_scan:
        # Something else is there by now, of a program that reports nothing.
        live[0].append(LiveBatch(offset, 3, 33))
        return story.take_read("live", 0, 100, live)
    story.forget("live", {0: 0})
    return story.take_read("live", 0, offset, live)


def test_the_tail_that_live_lost_is_missing_there_and_no_surplus_of_the_mirror() -> None:
    """Fault: 'missing 2' and 'doubled 2', for the mirror's copies came from nowhere."""
    verdict = cut_at(complete(), 60).verdict()
    assert (verdict.kind, verdict.missing, verdict.doubled, verdict.altered) == (Kind.INCOMPLETE, 2, 0, 0)
    assert verdict.first_bad_tier == "live"


@pytest.mark.situation("live log", "live loses its tail after the mirror copied it")
def test_a_tail_of_unaudited_records_is_missing_on_live_by_what_the_audit_had_read() -> None:
    """Fault: DOUBLED, first at the mirror. Nobody had reported them, and the books had forgotten them."""
    story = Story(CHAIN).producer(windows={1: {0: 1}}, closed=True)
    foreign = [LiveBatch(at, 1, at) for at in range(0, 100, 20)]
    story.live[0, 0] = foreign
    story.take_read("live", 0, 100, {0: list(foreign)})
    story.tell("mirror", 0, 100, {0: 5}).read("offline", 100, {0: {7: 5}}).tell("warehouse", 0, 100, {0: 5})
    assert story.verdict().kind is Kind.COMPLETE
    verdict = cut_at(story, 60).verdict()
    assert (verdict.kind, verdict.missing, verdict.doubled, verdict.first_bad_tier) == (Kind.INCOMPLETE, 2, 0, "live")
    assert [(one.first_offset, one.count) for one in verdict.differences[0].records] == [(60, 1), (80, 1)]


def test_a_tail_that_live_lost_is_no_surplus_of_offline_while_the_mirror_has_not_reported_it() -> None:
    """Fault: 'doubled 2' at offline. The mirror's report of the tail was lost."""
    story = Story(CHAIN).producer(windows={0: {0: 5}}, closed=True)
    story.read("live", 100, {0: {7: 5}}).tell("mirror", 0, 50, {0: 3})
    story.read("offline", 100, {0: {7: 5}}).tell("warehouse", 0, 100, {0: 5})
    cut_at(story, 60)
    assert story.verdict().kind is Kind.OPEN
    verdict = story.wait(LONG_MS).verdict()
    assert (verdict.kind, verdict.silent, verdict.doubled) == (Kind.UNKNOWN, ("mirror",), 0)
    verdict = story.tell("mirror", 50, 100, {0: 2}).read("live", 60).verdict()
    assert (verdict.kind, verdict.missing, verdict.doubled, verdict.first_bad_tier) == (Kind.INCOMPLETE, 2, 0, "live")


def test_a_tail_that_live_and_offline_lost_is_not_waited_for_where_the_warehouse_has_it() -> None:
    """Live and both copies end at 60 now; the load still has the rows behind."""
    story = cut_at(complete().forget("offline", {0: 60}).tell("mirror", 0, 60, {0: 3}).tell("mirror", 60, 100), 60)
    story.take_read("offline", 60, 60, {}).wait(1).take_read("live", 60, 60, {})
    verdict = story.verdict()
    assert (verdict.kind, verdict.silent) == (Kind.INCOMPLETE, ())
    assert {(one.tier, one.missing, one.doubled) for one in verdict.differences} == {("live", 2, 0), ("warehouse", 0, 2)}


def test_a_tail_that_came_back_is_complete_again() -> None:
    story = cut_at(complete(), 60)
    lost = [one for one in story.live[0, 0] if one.first >= 60]
    assert story.take_read("live", 60, 100, {0: list(lost)}).verdict().kind is Kind.COMPLETE


def test_while_live_is_read_again_nothing_is_said_of_what_it_held() -> None:
    story = complete().forget("live", {0: 0})
    verdict = story.verdict()
    assert (verdict.kind, verdict.missing) == (Kind.OPEN, 0)


def test_other_records_in_the_place_of_the_lost_ones_are_missing_at_the_mirror_and_not_altered_there() -> None:
    """Fault: ALTERED at the mirror, first at live or at the mirror as it came."""
    verdict = cut_at(complete(), 60, found_by_scan=True).verdict()
    assert (verdict.missing, verdict.doubled, verdict.altered) == (5, 0, 0)
    assert {(one.tier, one.missing) for one in verdict.differences} == {("live", 2), ("mirror", 3)}


def test_what_the_mirror_has_twice_of_what_live_lost_is_doubled_once() -> None:
    story = complete()
    twice = [Stretch(*one[:3]) for one in story.live[0, 0]]
    story.tell_range("mirror", 0, 100, {0: RangeWindow(held=(*twice, twice[-1]))})
    verdict = cut_at(story, 60).verdict()
    assert [(one.tier, one.missing, one.doubled) for one in verdict.differences] == [("live", 2, 0), ("mirror", 0, 1)]


def test_the_books_of_what_live_lost_are_stored() -> None:
    story = Story(CHAIN)
    story.journal = MemoryJournal(W)
    story.producer(windows={0: {0: 5}}, closed=True).all_tiers(100, {0: 5})
    before = cut_at(story, 60).verdict()
    story.books = story.journal.load()
    story.books.caught_up(LogKey("live", TOPIC, 0), story.now_ms)
    story.books.caught_up(LogKey("offline", TOPIC, 0), story.now_ms)
    assert story.verdict() == before
