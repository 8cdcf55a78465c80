"""What is remembered: for how long, how much of it, and how it is asked anew."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.console import answers as module
from headrace.console.answers import MOST_REMEMBERED, SOON_STALE_MS, STALE_MS, Answers
from headrace.console.errors import NotHere
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
    assert [answers.remembered("a", 1_000, ask).value for _ in range(3)] == [1, 1, 1]
    clock.advance(1_000)
    assert answers.remembered("a", 1_000, ask).value == 1


def test_an_old_answer_is_given_once_more_while_it_is_asked_anew(answers: Answers, clock: ManualClock) -> None:
    ask = Question()
    answers.remembered("a", 1_000, ask)
    clock.advance(1_001)
    assert answers.remembered("a", 1_000, ask).value == 1
    eventually(lambda: answers.remembered("a", 1_000, ask).value == 2, what="the new answer")


def test_an_answer_that_is_too_old_is_not_given_and_a_failure_says_why(answers: Answers, clock: ManualClock) -> None:
    ask = Question()
    answers.remembered("a", 1_000, ask)
    clock.advance(STALE_MS + 1)
    assert answers.remembered("a", 1_000, ask).value == 2

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
    eventually(lambda: answers.remembered("a", 1_000, ask).value == 3, what="one was asked anew")
    assert ask.count == 3


def test_a_page_does_not_wait_for_what_takes_long_and_shows_it_with_its_age_later(answers: Answers, clock: ManualClock) -> None:
    """Fault: the list of 50 groups took four seconds, because it waited for the lags."""
    go_on = threading.Event()

    def wait() -> int:
        go_on.wait(20)
        return 7

    first = answers.soon("lags", 5_000, wait)
    assert (first.value, first.is_asking) == (None, True)
    go_on.set()
    eventually(lambda: answers.soon("lags", 5_000, wait).value == 7, what="the answer is there")
    clock.advance(5_001)
    go_on.clear()
    old = answers.soon("lags", 5_000, wait)
    assert (old.value, old.age_ms, old.is_asking) == (7, 5_001, True)
    clock.advance(SOON_STALE_MS)
    assert answers.soon("lags", 5_000, wait).value is None, "an answer that is too old is not shown"
    go_on.set()
    eventually(lambda: answers.soon("lags", 5_000, wait).value == 7, what="the newer answer is there")


def test_what_could_not_be_asked_in_the_background_says_why_once_it_is_known(answers: Answers, clock: ManualClock) -> None:
    go_on = threading.Event()

    def fail() -> int:
        go_on.wait(20)
        raise HeadraceError("it is away")

    assert answers.soon("lags", 5_000, fail).value is None
    go_on.set()
    with pytest.raises(HeadraceError, match="it is away"):
        eventually(lambda: answers.soon("lags", 5_000, fail).value is not None, what="the fault")
    clock.advance(5_001)
    assert answers.soon("lags", 5_000, lambda: 3).value == 3, "it is asked again"


def test_a_fault_of_our_own_in_the_background_is_shown_and_not_waited_for_for_ever(answers: Answers) -> None:
    def fail() -> int:
        raise ValueError("a fault of ours")

    with pytest.raises(NotHere, match="A part of this page failed"):
        answers.soon("lags", 5_000, fail)


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
