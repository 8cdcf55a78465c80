"""Each fault that was found on the running platform while the books held sums (issue 14), as a sentence."""

import pytest

from headrace.audit.model.facts import Kind
from headrace.audit.model.messages import RangeWindow, Renumbered, SentRanges, Skipped, Stretch
from headrace.audit.model.tier_reports import LiveBatch
from headrace.audit.model.windows import window_start_ms

from ..no_journal import NoJournal
from ..stories import DEADLINE_MS, TOPIC, Story, W, crc_of

LONG_MS = DEADLINE_MS + 1_000
TWO = ("producer", "live")
THREE = ("producer", "live", "mirror")
DAY = 144
"""Windows of a day."""


def sent(*acknowledged: Stretch, **others: tuple[Stretch | Renumbered, ...]) -> SentRanges:
    return SentRanges(partition=0, producer_id=7, producer_epoch=0, acknowledged=acknowledged, **others)  # type: ignore[arg-type]


def test_two_lost_and_two_doubled_in_one_partition_and_window_are_incomplete() -> None:
    """Fault: COMPLETE 0 0, published (180 rows, 177 distinct)."""
    story = Story(("producer", "live", "warehouse")).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    offsets = [one.first for one in story.live[0, 0]]
    rows = tuple(Stretch(at, 1) for at in (offsets[0], offsets[0], offsets[1], offsets[1], offsets[2]))
    story.tell_range("warehouse", 0, 100, {0: RangeWindow(held=rows)})
    verdict = story.verdict()
    assert (verdict.kind, verdict.missing, verdict.doubled, verdict.first_bad_tier) == (Kind.INCOMPLETE, 2, 2, "warehouse")
    (difference,) = verdict.differences
    assert [(one.kind, one.first_offset, one.first_sequence, one.instance) for one in difference.records] == [
        ("missing", offsets[3], 3, "app"),
        ("missing", offsets[4], 4, "app"),
        ("doubled", offsets[0], 0, "app"),
        ("doubled", offsets[1], 1, "app"),
    ]


def test_two_lost_and_two_doubled_between_application_and_live_log_are_incomplete() -> None:
    """Fault: the same at the first hop."""
    story = Story(TWO).producer(windows={0: {0: 4}}, closed=True)
    batches = [LiveBatch(at, 1, crc_of(7, 0, one), 7, 0, one) for at, one in enumerate((0, 0, 1, 1))]
    verdict = story.take_read("live", 0, 10, {0: list(batches)}).verdict()
    assert (verdict.kind, verdict.missing, verdict.doubled) == (Kind.INCOMPLETE, 2, 2)
    assert [one.first_sequence for one in verdict.differences[0].records] == [2, 3, 0, 1]


@pytest.mark.parametrize("tier", ["live", "mirror"])
def test_a_batch_whose_content_changed_with_its_crc_made_right_is_altered(tier: str) -> None:
    """Fault: COMPLETE, published; no digest existed."""
    story = Story(THREE).producer(windows={0: {0: 3}}, closed=True)
    altered = LiveBatch(1, 1, 99, 7, 0, 1)
    batches = [LiveBatch(at, 1, crc_of(7, 0, at), 7, 0, at) for at in range(3)]
    held = [altered if one.first == 1 else one for one in batches]
    story.take_read("live", 0, 10, {0: list(held if tier == "live" else batches)})
    story.tell_range("mirror", 0, 10, {0: RangeWindow(held=tuple(Stretch(*one[:3]) for one in held))})
    verdict = story.verdict()
    assert (verdict.kind, verdict.missing, verdict.doubled, verdict.altered) == (Kind.ALTERED, 0, 0, 1)
    assert (verdict.first_bad_tier, verdict.differences[0].records[0].first_offset) == (tier, 1)


def test_rows_whose_digest_differs_are_altered_though_they_have_no_crc() -> None:
    story = Story(("producer", "live", "warehouse")).producer(windows={0: {0: 3}}, closed=True).read("live", 9, {0: {7: 3}})
    offsets = [one.first for one in story.live[0, 0]]
    rows = tuple(Stretch(at, 1) for at in offsets)
    story.tell_range("warehouse", 0, 9, {0: RangeWindow(held=rows, altered=rows[1:])})
    assert (story.verdict().kind, story.verdict().altered) == (Kind.ALTERED, 2)


def test_a_window_of_which_all_was_dropped_is_accounted_and_never_complete() -> None:
    """Fault: all 1,000 events dropped_buffer_full: COMPLETE with zeros, hour opened."""
    story = Story(TWO).producer(losses={0: {"dropped_buffer_full": 1_000}}, closed=True).read("live", 100)
    verdict = story.verdict()
    assert (verdict.kind, dict(verdict.accounted)) == (Kind.ACCOUNTED, {"dropped_buffer_full": 1_000})


def test_a_window_of_which_all_was_given_up_is_accounted_and_never_complete() -> None:
    """Fault: all events send_failed: COMPLETE with zeros."""
    story = Story(TWO).producer(uncertain={0: {0: 4}}, losses={0: {"refused": 3}}, closed=True).read("live", 100)
    verdict = story.verdict()
    assert (verdict.kind, dict(verdict.accounted)) == (Kind.ACCOUNTED, {"send_failed": 4, "refused": 3})


def test_a_killed_replay_of_one_day_leaves_the_other_days_alone() -> None:
    """Fault: every window of the topic UNKNOWN, open hours withdrawn."""
    story = Story(TWO).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    story.producer("replay", ids=(8,), between=(DAY * W, 2 * DAY * W)).wait(LONG_MS)
    story.producer("app", epoch=2, ids=(9,), windows={DAY: {0: 1}}, closed=True).read("live", 200, {DAY: {9: 1}})
    assert story.verdict(0).kind is Kind.COMPLETE
    assert (story.verdict(DAY).kind, list(story.verdict(DAY).silent)) == (Kind.UNKNOWN, ["producer:replay"])


def test_a_replay_that_starts_or_ends_opens_no_window_outside_of_its_range() -> None:
    """Fault: starting any replay re-opened all windows."""
    story = Story(TWO).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    story.books.news.clear()
    story.producer("replay", ids=(8,), between=(DAY * W, 2 * DAY * W))
    news = story.books.news[TOPIC]
    assert (news.touches(0, W), news.touches(DAY * W, DAY * W + W)) == (False, True)
    assert story.verdict(0).kind is Kind.COMPLETE
    story.producer("replay", ids=(8,), between=(DAY * W, 2 * DAY * W), closed=True)
    assert story.verdict(0).kind is Kind.COMPLETE


def test_a_run_that_announces_no_range_is_waited_for_by_every_window() -> None:
    story = Story(TWO).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}}).producer("late", ids=(8,))
    assert story.verdict(0).kind is Kind.OPEN


@pytest.mark.situation(
    "producers",
    "a replay sends events outside its announced times (the SDK does not)",
    shown="every window that it mentions waits for it",
    when="with the report and the reading of live",
    do="`retire-producer`",
)
def test_a_replay_that_writes_outside_of_its_range_is_waited_for_there() -> None:
    story = Story(TWO).producer("replay", windows={0: {0: 2}}, between=(DAY * W, 2 * DAY * W)).read("live", 100, {0: {7: 2}})
    assert story.verdict(0).kind is Kind.OPEN


@pytest.mark.situation("producers", "a replay sends events outside its announced times (the SDK does not)")
def test_a_replay_that_strayed_where_nobody_read_leaves_the_window_alone() -> None:
    """Found by the search, seed 139004: killed unreported, its record expired unread. Nothing of the window names it."""
    story = Story(TWO).producer("replay", ids=(8,), between=(DAY * W, 2 * DAY * W)).producer(windows={0: {0: 2}}, closed=True)
    story.take_read("live", 0, 20, {}, skipped=(Skipped(0, 20, "expired"),)).read("live", 100, {0: {7: 2}})
    assert story.wait(LONG_MS).verdict(0).kind is Kind.COMPLETE
    assert story.read("live", 120, {0: {8: 1}}).verdict(0).kind is Kind.UNKNOWN, "one of its records was read"


def test_records_that_expired_before_the_mirror_copied_them_are_a_loss_with_a_name_and_a_number() -> None:
    """Fault: UNKNOWN, 'mirror silent', 0 missing."""
    story = Story(THREE).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    story.tell("mirror", 0, 100, {0: 0}, skipped=(Skipped(0, 50, "expired"),))
    offsets = [one.first for one in story.live[0, 0]]
    left = tuple(Stretch(*one[:3]) for one in story.live[0, 0] if one.first >= 50)
    story.tell_range("mirror", 50, 100, {0: RangeWindow(held=left)})
    verdict = story.verdict()
    assert (verdict.kind, dict(verdict.accounted)) == (Kind.ACCOUNTED, {"expired": sum(at < 50 for at in offsets)})
    assert verdict.missing == 0


def test_records_that_the_mirror_could_not_read_for_damage_are_missing() -> None:
    """Fault: corrupt stretches counted 0."""
    story = Story(THREE).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    story.tell_range("mirror", 0, 100, {}, skipped=(Skipped(0, 100, "corrupt"),))
    assert (story.verdict().kind, story.verdict().missing) == (Kind.INCOMPLETE, 5)


def complete_and_expired() -> Story:
    story = Story().producer(windows={0: {0: 5}}, closed=True).all_tiers(100, {0: 5})
    assert story.verdict().kind is Kind.COMPLETE
    return story


def test_a_recount_of_live_after_its_records_expired_keeps_what_was_counted_of_them() -> None:
    """Fault: COMPLETE became 'missing, first at live', and the next publish withdrew the hour."""
    story = complete_and_expired().forget("live", {0: 100}).wait(5)
    assert story.verdict().kind is Kind.OPEN
    story.read("live", 100)
    assert story.verdict().kind is Kind.COMPLETE


def test_a_recount_of_offline_after_its_records_expired_keeps_what_was_counted_of_them() -> None:
    story = complete_and_expired().forget("offline", {0: 60}).read("offline", 100, {0: {7: 2}})
    assert story.verdict().kind is Kind.COMPLETE


def test_a_recount_finds_damage_that_came_after_the_first_count() -> None:
    """Fault: damage after the read-back was put on the tier behind."""
    story = complete_and_expired().forget("live", {0: 0}).wait(5)
    first, *rest = story.live[0, 0]
    story.take_read("live", 0, 100, {0: list(rest)}, skipped=(Skipped(first.first, rest[0].first, "corrupt"),))
    verdict = story.verdict()
    assert (verdict.kind, verdict.missing, verdict.first_bad_tier) == (Kind.INCOMPLETE, 1, "live")


def test_a_foreign_record_that_was_damaged_on_live_after_the_mirror_copied_it_is_missing_on_live() -> None:
    story = Story(THREE).producer(windows={0: {0: 2}}, closed=True).read("live", 100, {0: {7: 2, -1: 1}})
    story.tell("mirror", 0, 100, {0: 3})
    assert story.verdict().kind is Kind.COMPLETE
    kept = [one for one in story.live[0, 0] if one.producer_id == 7]
    (foreign,) = [one for one in story.live[0, 0] if one.producer_id == -1]
    story.take_read("live", 0, 100, {0: list(kept)}, skipped=(Skipped(foreign.first, foreign.first + 9, "corrupt"),))
    verdict = story.verdict()
    assert (verdict.kind, verdict.missing, verdict.first_bad_tier) == (Kind.INCOMPLETE, 1, "live")


def test_the_only_record_of_a_partition_that_was_damaged_on_live_is_missing_too() -> None:
    """Found by the search, seed 10994: no report and no batch was left to name the partition."""
    story = Story(THREE).producer(losses={0: {"quarantined": 1}}, closed=True)
    story.take_read("live", 0, 10, {}, skipped=(Skipped(0, 10, "corrupt"),))
    story.tell_range("mirror", 0, 10, {0: RangeWindow(held=(Stretch(3, 2, 9),))})
    assert (story.verdict().kind, story.verdict().missing, story.verdict().first_bad_tier) == (Kind.INCOMPLETE, 2, "live")


def rebuilt(*, mirrored: int, tiers: tuple[str, ...] = THREE) -> Story:
    """The store was lost and is filled again from the audit topic; the live log begins at 1,000 by now."""
    story = Story(tiers).producer(windows={0: {0: 5}, 1: {0: 2}}, closed=True)
    batches = [Stretch(at * 10, 1, crc_of(7, 0, at)) for at in range(mirrored)]
    later = [LiveBatch(1_000 + at, 1, crc_of(7, 0, at), 7, 0, at) for at in (5, 6)]
    story.take_read("live", 1_000, 1_100, {W: list(later)})
    held = {0: RangeWindow(held=tuple(batches)), W: RangeWindow(held=tuple(Stretch(*one[:3]) for one in later))}
    story.tell_range("mirror", 0, 1_100, held)
    return story


@pytest.mark.situation(
    "audit's own data",
    "the store is lost after live data expired, without a checkpoint",
    shown="decided where a later tier proves it; else UNKNOWN, never INCOMPLETE",
    when="after the restart, and the deadline",
    do="`audit known-loss`",
)
def test_windows_that_expired_on_live_are_judged_by_what_later_tiers_hold_after_the_store_was_lost() -> None:
    """Fault: a rebuild of the store after live had expired turned COMPLETE into 'missing, first at live'."""
    story = rebuilt(mirrored=5)
    assert story.verdict(0).kind is Kind.COMPLETE
    assert story.verdict(0).missing == 0
    assert story.verdict(1).kind is Kind.COMPLETE


@pytest.mark.situation("audit's own data", "the store is lost after live data expired, without a checkpoint")
def test_what_nobody_could_read_and_no_later_tier_holds_is_unknown_and_not_missing() -> None:
    story = rebuilt(mirrored=3)
    assert story.verdict(0).kind is Kind.OPEN
    verdict = story.wait(LONG_MS).verdict(0)
    assert (verdict.kind, verdict.missing, list(verdict.silent)) == (Kind.UNKNOWN, 0, ["live"])
    assert "2 records" in verdict.reason


def test_a_group_answers_for_records_that_only_the_mirror_still_has() -> None:
    """Found by the search, seed 20415: nothing of the window was left on live, and what the group had lost was not asked for."""
    story = rebuilt(mirrored=5, tiers=(*THREE, "consumer:rates"))
    later = tuple(Stretch(*one[:2]) for one in story.books.book(TOPIC).windows[W].found["live"][0].held)
    story.tell_range("consumer:rates", 0, 1_100, {W: RangeWindow(held=later)})
    verdict = story.verdict(0)
    assert (verdict.kind, verdict.missing, verdict.first_bad_tier) == (Kind.INCOMPLETE, 5, "consumer:rates")
    assert story.verdict(1).kind is Kind.COMPLETE


def test_a_group_that_began_behind_what_expired_is_not_asked_for_it() -> None:
    """Found while reading: such windows were UNKNOWN for ever."""
    story = rebuilt(mirrored=5)
    later = tuple(Stretch(*one[:2]) for one in story.books.book(TOPIC).windows[W].found["live"][0].held)
    story.tell_range("consumer:rates", 1_000, 1_100, {W: RangeWindow(held=later)})
    assert [story.verdict(number).kind for number in (0, 1)] == [Kind.COMPLETE] * 2
    assert [row.kind for number in (0, 1) for row in story.verdict(number).sinks.values()] == [Kind.COMPLETE] * 2


def test_a_group_has_to_tell_also_of_what_was_damaged_on_live() -> None:
    """Found by the search, seed 7387: decided before the group had said whether it had doubled these records."""
    story = Story((*THREE, "consumer:rates")).producer(losses={0: {"quarantined": 1}}, closed=True)
    story.take_read("live", 0, 10, {}, skipped=(Skipped(0, 10, "corrupt"),))
    story.tell_range("mirror", 0, 10, {0: RangeWindow(held=(Stretch(3, 2, 9),))})
    story.tell_range("consumer:rates", 0, 2, {})
    assert story.verdict().kind is Kind.OPEN
    story.tell_range("consumer:rates", 2, 10, {0: RangeWindow(held=(Stretch(3, 2), Stretch(3, 2)))})
    assert (story.verdict().kind, story.verdict().missing, story.verdict().doubled) == (Kind.INCOMPLETE, 2, 2)


def test_what_was_sent_after_the_first_batch_that_could_be_read_cannot_have_expired_unread() -> None:
    """Else one expired segment would hide every later loss of a topic."""
    story = Story(TWO).producer(windows={0: {0: 3}, 1: {0: 3}}, closed=True)
    later = [LiveBatch(1_000 + at, 1, crc_of(7, 0, at), 7, 0, at) for at in (2, 3, 5)]
    story.take_read("live", 1_000, 1_100, {0: list(later[:1]), W: list(later[1:])})
    verdict = story.verdict(1)
    assert (verdict.kind, verdict.missing) == (Kind.INCOMPLETE, 1)
    assert verdict.differences[0].records[0].first_sequence == 4


def test_offline_records_that_expired_before_the_audit_read_them_are_proven_by_the_warehouse() -> None:
    story = Story(("producer", "live", "offline", "warehouse")).producer(windows={0: {0: 5}}, closed=True)
    story.read("live", 100, {0: {7: 5}}).take_read("offline", 100, 100, {})
    assert story.wait(LONG_MS).verdict().silent == ("offline",)
    story.tell("warehouse", 0, 100, {0: 5})
    assert story.verdict().kind is Kind.COMPLETE


def test_a_topic_made_anew_under_its_name_never_mixes_with_the_one_before() -> None:
    """Fault: two logs mixed (live 90, really 60)."""
    story = Story(("producer", "live", "mirror"))
    assert not story.books.begin_anew(TOPIC, "first", NoJournal())
    story.producer(windows={0: {0: 3}}, closed=True).read("live", 30, {0: {7: 3}}).tell("mirror", 0, 30, {0: 3})
    assert story.verdict().kind is Kind.COMPLETE
    assert not story.books.begin_anew(TOPIC, "first", NoJournal())
    assert story.books.begin_anew(TOPIC, "second", NoJournal())
    assert story.books.book(TOPIC).windows == {}
    story.live.clear()
    story.producer("again", ids=(8,), windows={0: {0: 6}}, closed=True).read("live", 60, {0: {8: 6}})
    assert story.verdict().tiers == {"producer": 6, "live": 6, "mirror": None}
    story.tell("mirror", 0, 60, {0: 6})
    assert (story.verdict().kind, story.verdict().tiers["live"]) == (Kind.COMPLETE, 6)


def test_events_before_1970_share_a_window_and_events_of_any_year_are_counted() -> None:
    assert {window_start_ms(at) for at in (-1, -1_000, -(1 << 62))} == {-W}
    late = window_start_ms(1 << 62) // W
    story = Story(TWO).producer(windows={-1: {0: 2}, late: {0: 1}}, closed=True)
    story.read("live", 100, {-1: {7: 2}, late: {7: 1}})
    assert (story.verdict(-1).kind, story.verdict(late).kind) == (Kind.COMPLETE, Kind.COMPLETE)


def test_a_batch_sent_again_under_other_numbers_may_stand_once_under_any_of_them() -> None:
    first, last = Stretch(0, 2, 50), Stretch(9, 2, 60)
    told = (sent(renumbered=(Renumbered(first, 7, 1, 9),)), SentRanges(
        partition=0, producer_id=7, producer_epoch=1, acknowledged=(last,)
    ))  # fmt: skip
    under_first, under_last = LiveBatch(0, 2, 50, 7, 0, 0), LiveBatch(10, 2, 60, 7, 1, 9)

    def verdict_of(*batches: LiveBatch) -> tuple[Kind, int, int, int]:
        story = Story(TWO).producer(sent={0: told}, closed=True).take_read("live", 0, 100, {0: list(batches)})
        verdict = story.verdict()
        return verdict.kind, verdict.missing, verdict.doubled, verdict.altered

    assert verdict_of(under_first) == (Kind.COMPLETE, 0, 0, 0)
    assert verdict_of(under_last) == (Kind.COMPLETE, 0, 0, 0)
    assert verdict_of(under_first, under_last) == (Kind.DOUBLED, 0, 2, 0)
    assert verdict_of() == (Kind.INCOMPLETE, 2, 0, 0)
    assert verdict_of(under_first._replace(crc=51)) == (Kind.ALTERED, 0, 0, 2)


def test_a_difference_that_a_person_knows_is_accepted_while_its_numbers_are_these() -> None:
    def story(**numbers: int) -> Story:
        told = (
            Story(THREE).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}}).tell("mirror", 0, 100, {0: 3})
        )
        return told.known("mirror", kind="erased", **numbers)

    verdict = story(missing=2).verdict()
    assert (verdict.kind, verdict.missing, verdict.erased) == (Kind.ACCEPTED, 2, 2)
    assert (story(missing=1).verdict().kind, story(missing=1).verdict().erased) == (Kind.INCOMPLETE, 0)


def test_a_difference_names_a_hundred_stretches_and_counts_the_rest() -> None:
    story = Story(THREE).producer(windows={0: {0: 130}}, closed=True).read("live", 1_000, {0: {7: 130}}).tell("mirror", 0, 1_000)
    (difference,) = story.verdict().differences
    assert (len(difference.records), difference.more, difference.missing) == (100, 30, 130)


def test_a_run_that_was_retired_is_forgiven_what_it_never_reported_and_not_what_it_lost() -> None:
    story = Story(TWO).producer(windows={0: {0: 3}}).read("live", 100, {0: {7: 5}}).wait(LONG_MS).retire().read("live", 100)
    assert (story.verdict().kind, story.verdict().doubled) == (Kind.ACCEPTED, 0)
    story = Story(TWO).producer(windows={0: {0: 3}}).read("live", 100, {0: {7: 2}}).wait(LONG_MS).retire().read("live", 100)
    assert (story.verdict().kind, story.verdict().missing) == (Kind.INCOMPLETE, 1)


def test_what_a_later_log_holds_behind_the_live_log_s_end_came_from_nowhere() -> None:
    """Fault: a record appended to the offline log alone was UNKNOWN for ever; it hid what was lost beside it."""
    story = Story(("producer", "live", "mirror", "offline")).producer(windows={0: {0: 3}}, closed=True)
    story.read("live", 30, {0: {7: 3}}).tell("mirror", 0, 30, {0: 3})
    first, lost, last = story.live[0, 0]
    held = [Stretch(*one[:3]) for one in (first, last)]
    story.take_read("offline", 0, 40, {0: [*held, Stretch(35, 1, lost.crc)]})
    assert story.verdict().kind is Kind.OPEN, "the live log may have grown since"
    story.read("live", 30)
    verdict = story.verdict()
    assert (verdict.kind, verdict.missing, verdict.doubled, verdict.first_bad_tier) == (Kind.INCOMPLETE, 1, 1, "offline")
    assert [(one.kind, one.first_offset) for one in verdict.differences[0].records] == [("missing", lost.first), ("doubled", 35)]
