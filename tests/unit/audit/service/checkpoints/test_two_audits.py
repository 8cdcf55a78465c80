"""Two audits of one cluster, each with its own store: neither deletes what the other one has not read."""

import random
from pathlib import Path

from headrace.audit.service.hearing.other_audits import SEEN_WITHIN_MS, Position, least

from .test_checkpointer import History, Story


def two(folder: Path) -> tuple[Story, Story]:
    """The first has heard two messages, was seen, and is frozen; the second has heard all and written three checkpoints."""
    history = History(random.Random(4), 12)
    first = Story(folder, history, lambda: str(folder / "first.sqlite"))
    first.hear(2)
    first.checkpointer._note_position_if_due()
    second = Story(folder, history, lambda: str(folder / "second.sqlite"))
    second.topic = first.topic
    second.begin()
    return first, second


def write_some(story: Story) -> None:
    for _ in range(3):
        story.hear(6)
        story.checkpoint(None)


def test_a_second_audit_deletes_nothing_that_a_frozen_one_has_not_read(tmp_path: Path) -> None:
    """Fault: the first had lost reports permanently when it continued."""
    first, second = two(tmp_path)
    write_some(second)
    assert second.topic.audit_start == {0: 2}
    first.hear(100)  # fails where the topic begins behind its position
    first.checkpointer._note_position()
    second.hear(2)
    second.checkpoint(None)
    assert second.topic.audit_start == {0: 18}
    for story in (first, second):
        story.close()


def test_one_that_was_not_seen_for_a_week_is_waited_for_no_more(tmp_path: Path) -> None:
    first, second = two(tmp_path)
    second.service.clock.advance(SEEN_WITHIN_MS + 60_000)
    write_some(second)
    assert second.topic.audit_start == {0: 12}
    for story in (first, second):
        story.close()


def test_a_store_that_is_rebuilt_from_another_audit_s_checkpoint_has_an_id_of_its_own(tmp_path: Path) -> None:
    first, second = two(tmp_path)
    first.checkpoint(None)
    second.topic.audit_start = {0: 0}
    assert second.lose_store()
    assert second.service.ledger.books.store_id() != first.service.ledger.books.store_id()
    second.service.restart()
    assert second.service.ledger.books.store_id() == second.service.ledger.books.store_id()
    for story in (first, second):
        story.close()


def test_the_least_of_those_seen_lately_counts_in_each_partition() -> None:
    others = [Position("a", 1_000, {0: 3}), Position("b", 1_000, {0: 9, 1: 4}), Position("old", -SEEN_WITHIN_MS, {0: 0})]
    assert least({0: 8, 1: 7, 2: 5}, others, 1_000) == {0: 3, 1: 4, 2: 5}
