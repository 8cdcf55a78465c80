"""The live disk is lost with the audit topic, the checkpoints, or both, while the store is whole: checkpoints continue."""

import random
from pathlib import Path

import pytest

from headrace.audit.model.errors import AuditError
from tests.unit.audit.service.checkpoints.test_checkpointer import History, Story, a_story, shown


def lose_checkpoints(story: Story) -> None:
    story.topic.values.clear()
    story.topic.start = 0


def lose_reports(story: Story) -> None:
    """The audit topic begins again, and the collector has seen it."""
    assert story.service.ledger.take_reports([], {}, {0: 0})
    story.topic.audit_start = {}
    story.history.audit = History(random.Random(4), 8).audit


def test_checkpoints_that_were_lost_are_begun_anew_with_a_base(tmp_path: Path) -> None:
    """Fault: every checkpoint after the loss was looked for behind the offsets of the lost ones, and refused for ever."""
    story = a_story(tmp_path)
    lose_checkpoints(story)
    story.hear(1)
    with pytest.raises(AuditError, match="it is not on the topic"):
        story.checkpointer.write()
    story.checkpoint(None)
    assert story.checkpointer._seen(None)[-1].is_base
    before = shown(story.service)
    assert story.lose_store()
    assert shown(story.service) == before
    story.close()


def test_who_sees_the_audit_topic_lost_has_the_checkpoints_read_again_at_once(tmp_path: Path) -> None:
    story = a_story(tmp_path)
    before = shown(story.service)
    lose_checkpoints(story)
    lose_reports(story)
    story.checkpointer.topics_lost()
    assert story.checkpointer.write()
    assert story.lose_store()
    assert (story.heard, shown(story.service)) == (0, before)
    story.close()


def test_an_audit_topic_that_begins_anew_is_not_cut_where_the_lost_one_was_to_be(tmp_path: Path) -> None:
    """Fault: the checkpoint before the loss names an offset of the lost topic; what none held was deleted up to there."""
    story = a_story(tmp_path)
    lose_reports(story)
    story.checkpointer.topics_lost()
    story.hear(2)
    story.checkpoint(None)
    assert story.topic.audit_start == {0: 2}
    assert story.lose_store()
    assert story.heard == 2
    story.close()
