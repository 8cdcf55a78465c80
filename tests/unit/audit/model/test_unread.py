"""What stood where nobody could read the live log, proven by the copies that a later tier has made of it."""

import pytest

from headrace.audit.model.facts import Kind
from headrace.audit.model.messages import RangeWindow, Renumbered, SentRanges, Skipped, Stretch
from headrace.audit.model.tier_reports import LiveBatch

from ..stories import Story

CRC = 77
EXPIRED = (Skipped(10, 20, "expired"),)


def two_records_sent(*copied: Stretch, on_live: tuple[LiveBatch, ...] = (), uncertain: bool = False) -> Story:
    """A batch of two records was sent; of the live log [10, 20) expired unread, and the mirror has `copied`."""
    batch = (Stretch(0, 2, CRC),)
    acknowledged, given_up = ((), batch) if uncertain else (batch, ())
    ranges = SentRanges(partition=0, producer_id=7, producer_epoch=0, acknowledged=acknowledged, uncertain=given_up)
    story = Story(("producer", "live", "mirror")).producer(sent={0: (ranges,)}, closed=True)
    story.take_read("live", 0, 20, {}, skipped=EXPIRED).take_read("live", 20, 30, {0: list(on_live)} if on_live else {})
    story.tell_range("mirror", 0, 30, {0: RangeWindow(held=copied)})
    return story


def test_a_batch_of_two_of_which_the_mirror_has_three_stood_there_twice() -> None:
    """Found by the search, seed 63387: a double whose copies had both expired unread, one record of one copy lost by the mirror.

    It was called ACCOUNTED, though the mirror's copy proves it.
    """
    verdict = two_records_sent(Stretch(13, 1, CRC), Stretch(15, 2, CRC)).wait(60_000).verdict()
    assert (verdict.kind, verdict.doubled, verdict.missing) == (Kind.UNKNOWN, 2, 0)
    assert "1 records may have been on live" in verdict.reason
    assert "2 doubled" in verdict.reason


@pytest.mark.parametrize(
    "copied",
    [(Stretch(12, 2, CRC), Stretch(15, 2, CRC)), (Stretch(12, 4, CRC),), (Stretch(12, 1, CRC), Stretch(13, 3, CRC))],
    ids=["apart", "one behind the other", "told in other pieces"],
)
def test_a_batch_that_the_mirror_copied_twice_is_doubled_though_nobody_read_it_on_live(copied: tuple[Stretch, ...]) -> None:
    verdict = two_records_sent(*copied).verdict()
    assert (verdict.kind, verdict.doubled, verdict.first_bad_tier) == (Kind.DOUBLED, 2, "live")
    (difference,) = verdict.differences
    assert [(one.first_sequence, one.count) for one in difference.records] == [(0, 2)]


def test_a_batch_that_was_read_once_and_copied_a_second_time_where_nobody_read_is_doubled() -> None:
    story = two_records_sent(Stretch(12, 2, CRC), Stretch(25, 2, CRC), on_live=(LiveBatch(25, 2, CRC, 7, 0, 0),))
    assert (story.verdict().kind, story.verdict().doubled) == (Kind.DOUBLED, 2)


def test_a_batch_that_lies_across_the_border_of_what_expired_stood_there_once() -> None:
    story = two_records_sent(Stretch(19, 2, CRC), on_live=(LiveBatch(20, 1, CRC, 7, 0, 1),))
    assert story.verdict().kind is Kind.COMPLETE


def test_an_uncertain_batch_that_only_the_mirror_has_was_stored() -> None:
    assert two_records_sent(Stretch(12, 2, CRC), uncertain=True).verdict().kind is Kind.COMPLETE


def test_a_record_that_the_mirror_says_twice_is_the_mirrors_double_and_not_lives() -> None:
    verdict = two_records_sent(Stretch(12, 2, CRC), Stretch(12, 2, CRC)).verdict()
    assert (verdict.kind, verdict.doubled, verdict.first_bad_tier) == (Kind.DOUBLED, 2, "mirror")


def test_a_batch_sent_again_under_other_numbers_is_found_under_the_first_ones_in_the_copy() -> None:
    """It was UNKNOWN: the copy was asked for the last numbers' CRC alone."""
    again = SentRanges(partition=0, producer_id=7, producer_epoch=0, renumbered=(Renumbered(Stretch(0, 2, CRC), 7, 1, 0),))
    last = SentRanges(partition=0, producer_id=7, producer_epoch=1, acknowledged=(Stretch(0, 2, 78),))
    story = Story(("producer", "live", "mirror")).producer(sent={0: (again, last)}, closed=True)
    story.take_read("live", 0, 20, {}, skipped=EXPIRED).tell_range("mirror", 0, 20, {0: RangeWindow(held=(Stretch(12, 2, CRC),))})
    assert story.verdict().kind is Kind.COMPLETE


def test_copied_records_of_which_nobody_speaks_are_not_proven_to_be_right() -> None:
    """Found by the search, seed 18775: COMPLETE, though a second copy of a batch, altered, had expired unread on live."""
    verdict = two_records_sent(Stretch(12, 2, CRC), Stretch(15, 2, 99), uncertain=True).wait(60_000).verdict()
    assert (verdict.kind, list(verdict.silent)) == (Kind.UNKNOWN, ["live"])
    assert "2 records may have been on live" in verdict.reason
