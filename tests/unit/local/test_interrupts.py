"""Signals while something is being started and while it is being ended: the first ends it, no second disturbs that."""

import os
import signal

import pytest

from headrace.local.interrupts import Interrupts, held


def interrupted_twice(number: signal.Signals, steps: list[str], said: list[str]) -> None:
    with Interrupts(said.append) as interrupts:
        try:
            os.kill(os.getpid(), number)
            steps.append("went on")
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("cleaned up" if interrupts.came else "cleaned up, unasked")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_interrupts_and_the_second_is_only_answered(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    steps: list[str] = []
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_twice(number, steps, said)
    assert steps == ["cleaned up"]
    assert [line.partition(":")[0] for line in said] == ["interrupted", "interrupted again"]
    assert signal.getsignal(number) == before


def interrupted_while_starting(steps: list[str]) -> None:
    with Interrupts(lambda line: None):
        with held():
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("started")
        steps.append("not reached")


def test_a_held_signal_comes_when_the_started_process_is_known() -> None:
    steps: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_while_starting(steps)
    assert steps == ["started"]
