"""The warehouse is asked in a process of its own; a page never waits for it."""

from pathlib import Path

import pytest

from headrace.console import warehouse_asking
from headrace.console.warehouse_asking import FRESH_MS, Asking, Found
from headrace.runtime.clock import ManualClock
from headrace.runtime.layout import Layout
from tests.support.processes import eventually


def settled(asking: Asking, *question: str) -> Found:
    eventually(lambda: not asking.ask(*question).is_asking, within_ms=60_000, what="an answer")
    return asking.ask(*question)


def test_the_first_question_is_answered_with_nothing_yet_and_a_failure_with_its_reason(tmp_path: Path) -> None:
    clock = ManualClock(1)
    asking = Asking(Layout(home=tmp_path), clock)
    assert asking.ask("no question") == Found(answer=None, age_ms=None, is_asking=True)
    found = settled(asking, "no question")
    assert found.answer is None
    assert "is no question" in found.fault
    clock.advance(FRESH_MS + 1)
    assert asking.ask("no question").is_asking, "an old answer is asked for again"
    asking.close()


def test_questions_that_wait_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warehouse_asking, "MOST_WAITING", 1)
    asking = Asking(Layout(home=tmp_path), ManualClock(1))
    asking.ask("one")
    assert asking.ask("two") == Found(answer=None, age_ms=None, is_asking=True)
    assert asking.ask("two").is_asking, "the page asks again"
    assert "is no question" in settled(asking, "one").fault
    assert "is no question" in settled(asking, "two").fault
    asking.close()


def test_answers_that_are_remembered_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warehouse_asking, "MOST_REMEMBERED", 1)
    asking = Asking(Layout(home=tmp_path), ManualClock(1))
    settled(asking, "one")
    settled(asking, "two")
    assert asking.ask("one").age_ms is None
    asking.close()


def test_a_warehouse_that_does_not_answer_in_time_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warehouse_asking, "WITHIN_S", 0)
    asking = Asking(Layout(home=tmp_path), ManualClock(1))
    assert settled(asking, "tables").fault == "the warehouse gave no answer within 0 s"
    asking.close()
    assert not asking.ask("proofs").is_asking, "nothing is asked after the end"
