"""Which windows a group takes part in by operators' words, and what that does to the verdicts."""

from typing import Literal

import pytest

from headrace.audit.model import named_tiers
from headrace.audit.model.errors import MalformedReport
from headrace.audit.model.facts import Kind
from headrace.audit.model.messages import TierChange
from headrace.audit.model.named_tiers import windows_of, with_change
from headrace.audit.model.tiers import CHAIN, END_MS
from tests.unit.audit.stories import TOPIC, Story, W

GROUP = "consumer:fraud"
LONG_MS = 130_000


def word(change: Literal["add", "remove"], window: int, tier: str = GROUP, by: str = "anna") -> TierChange:
    return TierChange(topic=TOPIC, tier=tier, change=change, from_ms=window * W, at_ms=0, by=by, reason="billing")


def after(*words: TierChange) -> tuple[TierChange, ...]:
    kept: tuple[TierChange, ...] = ()
    for one in words:
        kept = with_change(kept, one)
    return kept


def windows(*words: TierChange) -> list[tuple[int, int]]:
    """Return the windows by their numbers; the last one of all as -1."""
    return [(start // W, -1 if end == END_MS else end // W) for start, end in windows_of(after(*words), GROUP)]


def test_a_group_takes_part_from_the_window_on_that_the_operator_named() -> None:
    assert windows() == []
    assert windows(word("add", 3)) == [(3, -1)]
    assert windows(word("add", 3), word("remove", 7)) == [(3, 7)]
    assert windows(word("add", 3), word("remove", 7), word("add", 9)) == [(3, 7), (9, -1)]
    assert windows(word("remove", 3)) == []


def test_a_later_word_replaces_what_was_said_of_its_window_and_of_later_ones() -> None:
    assert windows(word("add", 5), word("remove", 9), word("add", 7)) == [(5, -1)]
    assert windows(word("add", 5), word("remove", 2)) == []
    assert windows(word("add", 5), word("add", 2)) == [(2, -1)]
    assert [one.by for one in after(word("add", 5), word("add", 5, by="bob"))] == ["bob"]


def test_a_word_on_another_group_changes_nothing() -> None:
    other = word("remove", 1, "consumer:other")
    assert windows(word("add", 3), other) == [(3, -1)]
    assert len(after(word("add", 3), other)) == 2


def test_the_words_of_a_topic_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_tiers, "MOST_CHANGES", 2)
    kept = after(word("add", 1), word("remove", 2))
    with pytest.raises(MalformedReport, match="2 changes of its groups"):
        with_change(kept, word("add", 3))
    assert len(with_change(kept, word("add", 2))) == 2, "one that replaces another has room"


def complete() -> Story:
    return Story(CHAIN).producer(windows={0: {0: 5}, 1: {0: 3}}, closed=True).all_tiers(100, {0: 5, 1: 3})


def stopped_in_the_second_window() -> Story:
    """The group told all of window 0, and nothing of window 1."""
    story = complete()
    return story.tell(GROUP, 0, story.live[0, 0][-1].first + 1, {0: 5}).wait(LONG_MS)


def test_a_named_group_takes_part_in_its_windows_and_has_a_row_beside_the_others() -> None:
    story = stopped_in_the_second_window()
    assert [story.verdict(at).kind for at in (0, 1)] == [Kind.COMPLETE, Kind.COMPLETE]
    assert [story.verdict(at).sinks[GROUP].kind for at in (0, 1)] == [Kind.COMPLETE, Kind.UNKNOWN]
    story.named = {GROUP: [(W, END_MS)]}
    first, second = story.verdict(0), story.verdict(1)
    assert (first.kind, first.sinks[GROUP].kind, GROUP in first.tiers) == (Kind.COMPLETE, Kind.COMPLETE, False)
    assert (second.kind, second.silent, second.sinks) == (Kind.UNKNOWN, (GROUP,), {})
    story.named = {GROUP: [(0, W)]}
    first, second = story.verdict(0), story.verdict(1)
    assert (first.kind, first.tiers[GROUP], first.compared_tiers, first.sinks) == (Kind.COMPLETE, 5, 6, {})
    assert (second.kind, second.sinks[GROUP].kind) == (Kind.COMPLETE, Kind.UNKNOWN)


def test_a_named_group_that_never_reported_is_waited_for_and_has_no_row_elsewhere() -> None:
    story = complete().wait(LONG_MS)
    story.named = {GROUP: [(W, END_MS)]}
    assert (story.verdict(0).kind, story.verdict(0).sinks) == (Kind.COMPLETE, {})
    assert (story.verdict(1).kind, story.verdict(1).silent) == (Kind.UNKNOWN, (GROUP,))


def test_what_a_group_beside_the_verdict_put_into_quarantine_is_in_its_row_alone() -> None:
    story = Story(CHAIN).producer(windows={0: {0: 5}}, closed=True).all_tiers(100, {0: 5})
    story.tell(GROUP, 0, 100, {0: 3}, quarantined=2)
    assert (story.verdict().quarantined, story.verdict().sinks[GROUP].quarantined) == (0, 2)
    story.named = {GROUP: [(0, W)]}
    assert story.verdict().quarantined == 2
