"""A command that gives the audit an operator's word waits for it, and not for ever."""

import pytest

from headrace.cli import audit_topic
from headrace.errors import HeadraceError


def test_it_returns_the_first_answer_that_shows_the_word_taken() -> None:
    answers = iter([None, None, "ACCEPTED"])
    assert audit_topic.await_taken("the word", lambda: next(answers)) == "ACCEPTED"


def test_a_word_that_the_audit_does_not_take_is_an_error_that_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_topic, "TAKEN_IN_MS", 1)
    why = r"the word is on the audit topic, but the audit service has not taken it within 0 s: see its log"
    with pytest.raises(HeadraceError, match=why):
        audit_topic.await_taken("the word", lambda: None)
