"""A thread that asks for short turns keeps everything else it has."""

import os
import threading

import pytest

from headrace.broker import short_slices
from headrace.broker.short_slices import ask_for_short_turns


def test_the_system_takes_note_for_this_thread_and_its_priority_stays() -> None:
    found: list[object] = []

    def run() -> None:
        before = (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
        found.append(ask_for_short_turns())
        found.append((os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)) == before)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    assert found == [True, True]


def test_a_machine_that_is_not_known_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_slices, "_CALL", {})
    assert not ask_for_short_turns()
