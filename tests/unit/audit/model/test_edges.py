"""Where COMPLETE or ACCEPTED was false: strays of another topic, a tier that begins inside a window, a word on other records."""

import pytest

from headrace.audit.model.digests import digest_of_tier
from headrace.audit.model.facts import Kind
from headrace.audit.model.messages import KnownDifference, ProducerReport, Retirement
from headrace.audit.model.tier_reports import LiveBatch
from headrace.audit.model.tiers import CHAIN

from ..stories import DEADLINE_MS, TOPIC, Story

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
    row = verdict.sinks.get(tier, verdict)
    assert (row.kind, row.missing) == (Kind.INCOMPLETE, 1)
    (record,) = row.differences[0].records
    assert (record.first_offset, record.count) == (80, 1)
    assert (verdict.kind is Kind.COMPLETE) == tier.startswith("sink:")


@pytest.mark.parametrize("tier", ["consumer:rates", "sink:rates"])
def test_a_tier_that_begins_inside_a_window_and_has_the_rest_is_complete(tier: str) -> None:
    verdict = complete().tell(tier, 30, 30).tell(tier, 30, 100, {0: 3}).verdict()
    assert (verdict.kind, verdict.sinks.get(tier, verdict).kind) == (Kind.COMPLETE, Kind.COMPLETE)


def test_a_tier_that_begins_inside_a_window_and_stops_there_is_named() -> None:
    story = complete().tell("consumer:rates", 30, 30).tell("consumer:rates", 30, 50, {0: 1})
    assert story.verdict().kind is Kind.OPEN
    assert story.wait(LONG_MS).verdict().silent == ("consumer:rates",)


def test_a_tier_that_begins_behind_a_window_is_not_asked() -> None:
    verdict = complete().tell("consumer:rates", 100, 100).verdict()
    assert (verdict.kind, verdict.tiers["consumer:rates"]) == (Kind.COMPLETE, None)


# -- a person's word -------------------------------------------------------------------------------------------------------


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
