"""The doorbell between a journal's writer and its agent: who rings when, and that neither ever waits for the other."""

import os
import select
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.sdk.journal.doorbell import BYTE_FILE, FIFO_FILE, Doorbell, DoorbellListener
from headrace.sdk.journal.enrolment import AGENTS_FOLDER

from .transports import started


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def is_readable(listener: DoorbellListener) -> bool:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


def test_the_first_append_behind_a_reading_rings_and_the_next_does_not(root: Path) -> None:
    transport, listener = started(root), DoorbellListener(root)
    listener.arm()
    assert not is_readable(listener)
    assert transport.take(b"event", 1_000, None, 0) is None
    assert is_readable(listener)
    transport.take(b"event", 1_000, None, 0)
    assert os.read(listener.fileno(), 100) == b"\0", "one byte for two appends"
    assert listener.arm(), "somebody has rung"
    assert not listener.arm(), "and nobody since"
    transport.take_many([(b"event", 1_000, None)] * 3)
    assert is_readable(listener)
    transport.close(0)
    listener.close()


def test_an_append_that_begins_a_segment_rings(root: Path) -> None:
    transport, listener = started(root), DoorbellListener(root)
    transport.take(bytes(3_000), 1_000, None, 0)
    listener.arm()
    transport.take(bytes(3_000), 1_000, None, 0)
    assert transport._segment.segment == 1
    assert is_readable(listener)
    transport.close(0)
    listener.close()


def test_the_agent_may_begin_first_or_last(root: Path) -> None:
    listener = DoorbellListener(root)
    listener.arm()
    transport = started(root)
    transport.take(b"event", 1_000, None, 0)
    assert is_readable(listener)
    transport.close(0)
    listener.close()


def test_a_ring_that_crosses_a_reading_is_heard_once(root: Path) -> None:
    """The writer has cleared the byte, the agent arms it, and only then the writer comes to the FIFO."""
    doorbell, listener = Doorbell(root), DoorbellListener(root)
    listener.arm()
    doorbell.is_armed[0] = 0
    assert listener.arm()
    doorbell.ring()
    doorbell.is_armed[0] = 1
    assert is_readable(listener)
    assert listener.arm()
    assert not is_readable(listener), "or the agent's next wait would end at once, for ever"
    listener.close()


def test_a_killed_agent_costs_one_try(root: Path) -> None:
    doorbell, listener = Doorbell(root), DoorbellListener(root)
    listener.arm()
    os.close(listener.fileno())
    assert doorbell.is_armed[0] == 1
    doorbell.ring()
    assert doorbell.is_armed[0] == 0


def test_an_agent_that_stopped_is_not_rung(root: Path) -> None:
    doorbell, listener = Doorbell(root), DoorbellListener(root)
    listener.arm()
    listener.close()
    assert doorbell.is_armed[0] == 0


def test_a_full_fifo_holds_nobody_up(root: Path) -> None:
    doorbell, listener = Doorbell(root), DoorbellListener(root)
    with suppress(BlockingIOError):
        while os.write(listener.fileno(), bytes(4_096)):
            pass
    doorbell.ring()
    listener.close()


def test_what_stands_in_the_place_of_the_fifo_is_replaced_by_the_agent_and_ignored_by_the_writer(root: Path) -> None:
    (root / AGENTS_FOLDER).mkdir(parents=True)
    fifo = root / AGENTS_FOLDER / FIFO_FILE
    fifo.mkdir()
    Doorbell(root).ring()
    fifo.rmdir()
    fifo.write_bytes(b"a file")
    listener = DoorbellListener(root)
    assert fifo.is_fifo()
    listener.close()


def test_a_journal_without_a_doorbell_takes_events(root: Path) -> None:
    (root / AGENTS_FOLDER / BYTE_FILE).mkdir(parents=True)
    transport = started(root)
    assert transport.take(b"event", 1_000, None, 0) is None
    transport.close(0)
