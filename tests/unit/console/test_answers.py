"""What is remembered: for how long, how much of it, and how it is asked anew."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.console import answers as module
from headrace.console.answers import MOST_REMEMBERED, STALE_MS, Answers
from headrace.errors import HeadraceError
from headrace.runtime.clock import ManualClock
from tests.support.processes import eventually

from .conftest import layout_of


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1)


@pytest.fixture
def answers(tmp_path: Path, clock: ManualClock) -> Iterator[Answers]:
    made = Answers(layout_of(tmp_path), clock, is_read_only=False)
    yield made
    made.close()


class Question:
    """Answers with how often it was asked."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> int:
        self.count += 1
        return self.count


def test_an_answer_is_given_again_while_it_is_fresh(answers: Answers, clock: ManualClock) -> None:
    ask = Question()
    assert [answers.remembered("a", 1_000, ask) for _ in range(3)] == [1, 1, 1]
    clock.advance(1_000)
    assert answers.remembered("a", 1_000, ask) == 1


def test_an_old_answer_is_given_once_more_while_it_is_asked_anew(answers: Answers, clock: ManualClock) -> None:
    ask = Question()
    answers.remembered("a", 1_000, ask)
    clock.advance(1_001)
    assert answers.remembered("a", 1_000, ask) == 1
    eventually(lambda: answers.remembered("a", 1_000, ask) == 2, what="the new answer")


def test_an_answer_that_is_too_old_is_not_given_and_a_failure_says_why(answers: Answers, clock: ManualClock) -> None:
    ask = Question()
    answers.remembered("a", 1_000, ask)
    clock.advance(STALE_MS + 1)
    assert answers.remembered("a", 1_000, ask) == 2

    def fail() -> int:
        raise HeadraceError("it is away")

    clock.advance(STALE_MS + 1)
    with pytest.raises(HeadraceError, match="it is away"):
        answers.remembered("a", 1_000, fail)


def test_questions_in_the_background_are_bounded(answers: Answers, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ASKING", 1)
    ask, go_on = Question(), threading.Event()
    for key in "ab":
        answers.remembered(key, 1_000, ask)
    clock.advance(1_001)

    def wait() -> int:
        go_on.wait(20)
        return ask()

    answers.remembered("a", 1_000, wait)
    answers.remembered("b", 1_000, wait)
    go_on.set()
    eventually(lambda: answers.remembered("a", 1_000, ask) == 3, what="one was asked anew")
    assert ask.count == 3


def test_the_oldest_answers_are_forgotten(answers: Answers) -> None:
    ask = Question()
    answers.remembered("a", 1_000, ask)
    for number in range(MOST_REMEMBERED):
        answers.remembered(str(number), 1_000, ask)
    before = ask.count
    answers.remembered(str(MOST_REMEMBERED - 1), 1_000, ask)
    assert ask.count == before
    answers.remembered("a", 1_000, ask)
    assert ask.count == before + 1
