"""A process that is killed (SIGKILL) at random moments while its threads log into a journal.

Every event that `take` answered with True is in the journal, once and in its thread's order; every refusal is counted; at
most one event of each thread is undecided. The answers are in a mapped file of the test, which survives the kill too.
"""

import mmap
import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.runtime.clock import SystemClock
from headrace.sdk.journal import START, Journal, JournalRecord, JournalSettings, JournalTransport, SegmentGivenUp, open_journals
from headrace.sdk.transport import LoggerRun
from tests.crash.kills import seed_of

KILLS = int(os.environ.get("HEADRACE_JOURNAL_KILLS", "100"))
EACH_TEST = 20
THREADS = 3
MOST = 200_000
TAKEN, DROPPED = 1, 2
WINDOW = 1_200_000


class Answers:
    """One byte for each event: not answered, taken, dropped."""

    def __init__(self, path: Path) -> None:
        with path.open("w+b") as file:
            file.truncate(THREADS * MOST)
            self._bytes = mmap.mmap(file.fileno(), THREADS * MOST)

    def set(self, thread: int, number: int, answer: int) -> None:
        self._bytes[thread * MOST + number] = answer

    def of(self, thread: int) -> bytes:
        """Return the answers that a thread got, without the place of the one that is undecided."""
        return self._bytes[thread * MOST : (thread + 1) * MOST].rstrip(b"\0")


def write_until_killed(root: Path, answers: Answers, chance: random.Random) -> None:
    settings = JournalSettings(
        root=root,
        segment_bytes=chance.choice((4096, 16384, 65536)),
        quota_bytes=chance.choice((131_072, 262_144)),
        root_quota_bytes=1 << 20,
        when_full=chance.choice(("drop_newest", "drop_oldest", "block")),
        is_durable=chance.random() < 0.1,
    )
    run = LoggerRun(
        topic="clicks",
        schema='"bytes"',
        record_name="clicks",
        application="app",
        instance="host/app/1",
        server_name="host",
        lateness_ms=60_000,
    )
    transport = JournalTransport(run, settings, SystemClock())
    transport.start()
    bodies = [bytes(chance.randrange(600)) for _ in range(64)]

    def log_events(thread: int) -> None:
        for number in range(MOST):
            lost = transport.take(b"%d %d " % (thread, number) + bodies[number % 64], WINDOW + number, None, 20)
            answers.set(thread, number, TAKEN if lost is None else DROPPED)

    for thread in range(1, THREADS):
        threading.Thread(target=log_events, args=(thread,), daemon=True).start()
    log_events(0)


def read_while_it_lives(root: Path, child: int, chance: random.Random) -> list[JournalRecord]:
    """Read as an agent does, kill the writer at some moment, and read the rest. Return everything."""
    deadline = time.monotonic() + 60
    journal: Journal | None = None
    while journal is None:
        assert time.monotonic() < deadline
        journal = next(iter(open_journals(root)[0]), None)
    records: list[JournalRecord] = []
    position = START
    kill_at = time.monotonic() + chance.random() * 0.15
    is_killed = False
    while True:
        assert time.monotonic() < deadline
        if not is_killed and records and time.monotonic() > kill_at:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            is_killed = True
        chunk = journal.read(position, chance.choice((1, 500, 20_000)))
        assert not chunk.unreadable, chunk.unreadable
        try:
            journal.hold(position, chunk.end)
        except SegmentGivenUp:
            continue  # The writer was faster: what was read is counted as dropped.
        records += chunk.records
        if chunk.end == position and is_killed:
            assert journal.is_ended(position)
            assert not journal.lacks_tail(position)
            return records
        position = chunk.end
        if chance.random() < 0.5:
            journal.release(position)


@pytest.mark.parametrize("episode", range(max(1, KILLS // EACH_TEST)))
def test_what_was_taken_stands_in_the_journal_of_a_killed_process(tmp_path: Path, episode: int) -> None:
    for kill in range(EACH_TEST):
        seed = seed_of(episode * EACH_TEST + kill)
        root = tmp_path / str(kill)
        answers = Answers(tmp_path / f"answers-{kill}")
        child = os.fork()
        if not child:
            with suppress(BaseException):
                write_until_killed(root, answers, random.Random(seed))
            os._exit(1)
        records = read_while_it_lives(root, child, random.Random(seed))
        check(records, answers, open_journals(root)[0][0])


def check(records: list[JournalRecord], answers: Answers, journal: Journal) -> None:
    found: dict[int, list[int]] = {thread: [] for thread in range(THREADS)}
    for record in records:
        thread, number = map(int, record.body.split(b" ", 2)[:2])
        found[thread].append(number)
    losses = journal.losses()
    assert not losses.unassigned
    dropped_in_the_end = sum(losses.counts.values())
    refused = given_up = 0
    undecided = 0
    for thread, numbers in found.items():
        answered = answers.of(thread)
        assert numbers == sorted(set(numbers)), "once, and in order"
        assert all(number <= len(answered) for number in numbers), "nothing that was not attempted"
        there = set(numbers)
        counts = Counter(answered)
        refused += counts[DROPPED]
        assert not [number for number in there if number < len(answered) and answered[number] == DROPPED]
        given_up += sum(1 for number, answer in enumerate(answered) if answer == TAKEN and number not in there)
        undecided += 1
    assert refused + given_up <= dropped_in_the_end <= refused + given_up + undecided, (refused, given_up, dropped_in_the_end)
    if not (journal.folder / "dropped.json").exists():
        assert not given_up
