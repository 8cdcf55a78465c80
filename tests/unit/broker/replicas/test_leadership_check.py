"""Whether this broker leads is asked of ZooKeeper once for all that wait, and never answered from an older reading."""

from collections.abc import Callable

import pytest

from headrace.broker.replicas import leadership_check
from headrace.broker.replicas.leadership_check import LeadershipCheck
from headrace.broker.replication.state import State

NODE = State(leader=1, leader_epoch=4)


class Reading:
    """Readings that the test ends by hand."""

    def __init__(self) -> None:
        self.begun: list[Callable[[State | None], None]] = []
        self.found: list[bool] = []
        self.check = LeadershipCheck(self.begun.append, lambda node: node.leader_epoch == 4)

    def ask(self) -> None:
        self.check.when_sure(self.found.append)


def test_a_question_waits_for_a_reading_that_begins_after_it() -> None:
    reading = Reading()
    reading.ask()
    reading.ask()
    reading.ask()
    assert len(reading.begun) == 1
    reading.begun[0](NODE)
    assert reading.found == [True], "the two others came while that reading was under way"
    reading.begun[1](State(leader=2, leader_epoch=5))
    assert reading.found == [True, False, False]
    reading.ask()
    reading.begun[2](None)
    assert reading.found[-1] is False, "a node that cannot be read proves nothing"
    assert len(reading.begun) == 3


def test_the_end_tells_all_that_wait() -> None:
    reading = Reading()
    reading.ask()
    reading.ask()
    reading.check.end()
    assert reading.found == [False]
    reading.begun[0](NODE)
    assert reading.found == [False, True]


def test_too_many_questions_are_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership_check, "MOST_WAITING", 2)
    reading = Reading()
    for _ in range(4):
        reading.ask()
    assert reading.found == [False]
