"""Rows of sinks: what one has is told beside the verdict, and whatever it says or does not say, the verdict is the same."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.audit.model.facts import Kind, SinkRow, Verdict
from headrace.audit.model.messages import RangeWindow, Skipped, Stretch
from headrace.audit.model.tiers import CHAIN
from headrace.audit.service.store import sink_rows
from tests.unit.audit.stories import DEADLINE_MS, TOPIC, Story

SINK = "sink:clicks"
LONG_MS = 10 * DEADLINE_MS


def complete(tiers: tuple[str, ...] = CHAIN) -> Story:
    return Story(tiers).producer(windows={0: {0: 5}}, closed=True).all_tiers(100, {0: 5})


def row(story: Story, window: int = 0) -> SinkRow:
    return story.verdict(window).sinks[SINK]


def test_a_sink_that_has_everything_is_complete() -> None:
    verdict = complete().tell(SINK, 0, 100, {0: 5}).verdict()
    assert (verdict.kind, SINK in verdict.tiers) == (Kind.COMPLETE, False)
    assert (verdict.sinks[SINK].kind, verdict.sinks[SINK].count) == (Kind.COMPLETE, 5)


@pytest.mark.situation(
    "groups and sinks",
    "a sink loses a record",
    shown="its own row INCOMPLETE, missing 1, its offset; the verdict stays",
    when="with its report",
    do="reset its group; its key removes duplicates",
)
def test_a_record_that_a_sink_lacks_is_its_own_affair_and_named() -> None:
    verdict = complete().tell(SINK, 0, 100, {0: 4}).verdict()
    found = verdict.sinks[SINK]
    assert (verdict.kind, verdict.missing, verdict.first_bad_tier) == (Kind.COMPLETE, 0, None)
    assert (found.kind, found.missing, found.count) == (Kind.INCOMPLETE, 1, 4)
    (record,) = found.differences[0].records
    assert (record.first_offset, record.count) == (80, 1)


def test_a_record_delivered_twice_does_not_stand_for_one_that_is_lost() -> None:
    """Five are told and five are there; one of them twice, so one is missing: identities, not sums."""
    story = complete()
    story.tell_range(SINK, 0, 100, {0: RangeWindow(held=(*(Stretch(at, 1) for at in (0, 20, 40, 60)), Stretch(60, 1)))})
    found = row(story)
    assert (found.kind, found.missing, found.doubled) == (Kind.INCOMPLETE, 1, 1)


def test_ranges_told_again_change_nothing_and_are_counted_as_redelivered() -> None:
    story = complete().tell(SINK, 0, 100, {0: 4}).tell(SINK, 0, 60, {0: 3})
    assert (row(story).kind, row(story).missing, row(story).doubled) == (Kind.INCOMPLETE, 1, 0)
    assert story.verdict().redelivered == 3


def test_a_sink_that_somebody_stopped_is_unknown_after_its_deadline_and_nothing_else_is() -> None:
    story = Story().producer(windows={0: {0: 5}, 1: {0: 5}}, closed=True)
    story.read("live", 100, {0: {7: 5}}).read("live", 200, {1: {7: 5}})
    for tier in ("mirror", "warehouse"):
        story.tell(tier, 0, 200, {0: 5, 1: 5})
    story.read("offline", 200, {0: {7: 5}, 1: {7: 5}})
    story.tell(SINK, 0, 100, {0: 5})
    assert (story.verdict(1).kind, row(story, 1).kind) == (Kind.COMPLETE, Kind.OPEN)
    story.wait(LONG_MS)
    assert story.verdict(1).kind is Kind.COMPLETE
    assert (story.verdict(1).silent, row(story, 1).silent) == ((), (SINK,))
    assert (row(story, 0).kind, row(story, 1).kind) == (Kind.COMPLETE, Kind.UNKNOWN)
    story.tell(SINK, 100, 200, {1: 5})
    assert row(story, 1).kind is Kind.COMPLETE


def test_refused_records_with_an_address_balance_and_expired_ones_are_lost_by_name() -> None:
    verdict = complete().tell(SINK, 0, 100, {0: 4}, quarantined=1).verdict()
    assert (verdict.sinks[SINK].kind, verdict.sinks[SINK].quarantined, verdict.quarantined) == (Kind.COMPLETE, 1, 0)
    found = row(complete().tell(SINK, 0, 100, {0: 4}, skipped=(Skipped(80, 100, "expired"),)))
    assert (found.kind, dict(found.losses)) == (Kind.ACCOUNTED, {"expired": 1})


def test_a_sink_does_not_answer_for_what_was_before_it_began_unless_a_person_asks_it_to() -> None:
    assert SINK not in complete().tell(SINK, 100, 100).verdict().sinks
    asked = complete((*CHAIN, SINK)).tell(SINK, 100, 100).wait(LONG_MS).verdict()
    assert (asked.kind, asked.sinks[SINK].kind) == (Kind.COMPLETE, Kind.UNKNOWN)


def test_while_the_live_log_is_not_settled_nobody_can_say_what_a_sink_lacks() -> None:
    story = Story().producer(windows={0: {0: 5}}).all_tiers(100, {0: 5}).tell(SINK, 0, 100, {0: 5})
    assert row(story).kind is Kind.OPEN
    verdict = story.wait(LONG_MS).verdict()
    assert (verdict.kind, verdict.silent, row(story).kind) == (Kind.UNKNOWN, ("producer:app",), Kind.UNKNOWN)


def test_records_that_never_were_in_the_live_log_are_doubled_at_the_sink_alone() -> None:
    story = complete()
    story.tell_range(SINK, 0, 100, {0: RangeWindow(held=(*(Stretch(at, 1) for at in (0, 20, 40, 60, 80)), Stretch(90, 1)))})
    assert (row(story).kind, row(story).doubled, story.verdict().kind) == (Kind.DOUBLED, 1, Kind.COMPLETE)


def words(verdict: Verdict) -> Verdict:
    """Return the verdict but for what belongs to sinks; what came again counts for the window, whoever read it."""
    return replace(verdict, sinks={}, redelivered=0, waits={})


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.lists(st.integers(0, 99), max_size=6)), max_size=4),
    st.integers(0, 5),
    st.booleans(),
    st.sampled_from([0, 1, DEADLINE_MS + 1, LONG_MS]),
)
def test_whatever_a_sink_tells_the_verdict_is_as_without_it(
    told: list[tuple[int, int, list[int]]], held: int, is_closed: bool, later_ms: int
) -> None:
    def story() -> Story:
        made = Story().producer(windows={0: {0: 5}}, closed=is_closed).read("live", 100, {0: {7: 5}})
        made.tell("mirror", 0, 100, {0: 5}).read("offline", 100, {0: {7: 5}})
        return made.tell("warehouse", 0, 100, {0: held})

    without, with_sink = story(), story()
    for first, last, offsets in told:
        low, high = sorted((first, last))
        inside = tuple(Stretch(at, 1) for at in offsets if low <= at < high)
        with_sink.tell_range(SINK, low, high, {0: RangeWindow(held=inside)})
    assert with_sink.books.book(TOPIC).windows[0] is not None
    assert words(with_sink.wait(later_ms).verdict()) == words(without.wait(later_ms).verdict())


def test_a_stopped_sink_s_words_stay_the_same_so_that_its_windows_grow_old() -> None:
    story = complete((*CHAIN, SINK))
    before = sink_rows.sinks_json({SINK: row(story.wait(LONG_MS))})
    after = sink_rows.sinks_json({SINK: row(story.wait(LONG_MS))})
    assert after == before
    assert "silent since" in after[SINK]["reason"]
    assert sink_rows.is_undecided({"sinks": after})
    now_complete = sink_rows.sinks_json({SINK: row(complete().tell(SINK, 0, 100, {0: 5}))})
    assert not sink_rows.is_undecided({"sinks": now_complete})


def test_days_add_up_the_counts_of_sinks_and_keep_the_worst_word() -> None:
    good = sink_rows.sinks_json({SINK: row(complete().tell(SINK, 0, 100, {0: 5}))})
    bad = sink_rows.sinks_json({SINK: row(complete().tell(SINK, 0, 100, {0: 4}))})
    waiting = sink_rows.sinks_json({SINK: row(complete((*CHAIN, SINK)))})
    day = sink_rows.together(sink_rows.in_a_day(good), sink_rows.in_a_day(bad))
    assert (day[SINK]["verdict"], day[SINK]["count"], day[SINK]["missing"]) == ("INCOMPLETE", 9, 1)
    assert sink_rows.in_a_day(waiting)[SINK]["verdict"] == "UNKNOWN"
    assert sink_rows.together(day, {})[SINK] == day[SINK]


AT_OFFLINE = f"{SINK}@offline"


@pytest.mark.situation(
    "groups and sinks",
    "the mirror loses a record in front of a sink",
    shown="INCOMPLETE at the mirror; the sink's row COMPLETE",
    when="with the mirror's report",
    do="restore the copy",
)
def test_a_sink_on_the_offline_cluster_answers_for_what_stands_there_and_not_for_what_the_mirror_lost() -> None:
    story = Story().producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    story.tell("mirror", 0, 100, {0: 4}).read("offline", 100, {0: {7: 4}}).tell("warehouse", 0, 100, {0: 4})
    story.tell(AT_OFFLINE, 0, 100, {0: 4}).tell(SINK, 0, 100, {0: 4})
    verdict = story.verdict()
    assert (verdict.kind, verdict.first_bad_tier) == (Kind.INCOMPLETE, "mirror")
    assert (verdict.sinks[AT_OFFLINE].kind, verdict.sinks[AT_OFFLINE].missing) == (Kind.COMPLETE, 0)
    assert (verdict.sinks[SINK].kind, verdict.sinks[SINK].missing) == (Kind.INCOMPLETE, 1)


def test_two_sinks_of_one_group_on_both_clusters_have_each_their_row() -> None:
    found = complete().tell(SINK, 0, 100, {0: 5}).tell(AT_OFFLINE, 0, 100, {0: 3}).verdict().sinks
    assert {name: (row.kind, row.count, row.missing) for name, row in found.items()} == {
        SINK: (Kind.COMPLETE, 5, 0),
        AT_OFFLINE: (Kind.INCOMPLETE, 3, 2),
    }


def test_while_the_offline_log_is_behind_its_sink_waits_and_consumers_have_no_part_in_it() -> None:
    tiers = (*CHAIN, "consumer:rates")
    story = Story(tiers).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    story.tell(AT_OFFLINE, 0, 100, {0: 5})
    assert story.verdict().sinks[AT_OFFLINE].kind is Kind.OPEN
    found = story.wait(LONG_MS).verdict()
    assert set(found.silent) == {"mirror", "consumer:rates"}
    assert (found.sinks[AT_OFFLINE].kind, found.sinks[AT_OFFLINE].silent) == (Kind.UNKNOWN, ("mirror",))


def test_without_an_offline_log_to_compare_with_nobody_says_anything_of_its_sink() -> None:
    story = Story(("producer", "live")).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    verdict = story.tell(AT_OFFLINE, 0, 100, {0: 5}).wait(LONG_MS).verdict()
    assert verdict.kind is Kind.COMPLETE
    assert (verdict.sinks[AT_OFFLINE].kind, verdict.sinks[AT_OFFLINE].count) == (Kind.OPEN, 5)
    assert "headrace audit run --offline" in verdict.sinks[AT_OFFLINE].reason
