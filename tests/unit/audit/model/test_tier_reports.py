"""What the books keep of runs and ranges is bounded, and repeats and any order end in the same place."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model import tier_log
from headrace.audit.model.books import Sent, SentKey, pack_sent, unpack_sent
from headrace.audit.model.messages import ProducerReport, RangeWindow, Skipped, Stretch
from headrace.audit.model.runs import MOST_GAPS, Run, RunKey
from headrace.audit.model.tier_log import TierLog
from headrace.audit.model.tier_reports import LiveBatch, LogKey, Outcome, PartitionRead, TierReports
from tests.support.audit_world.memory_journal import MemoryJournal

from ..stories import TOPIC, Story

W = 600_000


def report(sequence: int, *, closed: bool = False, past_ms: int | None = None) -> ProducerReport:
    return ProducerReport(
        instance="app",
        epoch=1,
        sequence=sequence,
        at_ms=0,
        state="closed" if closed else "open",
        producer_ids=(7,),
        topics=("clicks",),
        moved_past_ms=past_ms,
    )


def run_of(*reports: ProducerReport) -> Run:
    run = Run(key=RunKey("app", 1), first_heard_ms=0, heard_ms=0)
    for at, one in enumerate(reports):
        run.take(one, at + 1)
    return run


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_lost_reports_are_exactly_the_numbers_that_never_came_whatever_came_twice(seed: int) -> None:
    drawn = random.Random(seed)
    told = [at for at in range(30) if drawn.random() < 0.6]
    repeated = sorted([*told, *(at for at in told if drawn.random() < 0.3)], key=lambda at: at + drawn.random() * 3)
    run = run_of(*(report(at) for at in repeated))
    missing = {at for start, end in run.gaps for at in range(start, end)}
    assert missing == set(range(max(told, default=-1) + 1)) - set(told)


def test_what_is_said_again_heals_what_was_lost_before() -> None:
    assert run_of(report(0), report(5), report(9)).gaps == [(1, 5), (6, 9)]
    assert run_of(report(0), report(5), report(9), report(7)).gaps == [(1, 5), (6, 7), (8, 9)]
    assert run_of(report(0), report(5), report(9), *map(report, range(10))).gaps == []


def test_stretches_of_lost_reports_are_bounded_and_never_forgotten() -> None:
    run = run_of(*(report(at) for at in range(0, 10 * MOST_GAPS, 2)))
    assert len(run.gaps) == MOST_GAPS
    assert run.gaps[0][0] == 1
    assert run.gaps[-1] == (10 * MOST_GAPS - 3, 10 * MOST_GAPS - 2)


def test_a_window_is_sealed_when_the_run_first_moved_past_it() -> None:
    run = run_of(report(0, past_ms=W), report(1, past_ms=W), report(2, past_ms=3 * W), report(3, closed=True))
    assert [run.sealed_ms(end) for end in (W, 2 * W, 3 * W, 4 * W)] == [1, 3, 3, 4]
    assert run_of(report(0)).sealed_ms(W) is None


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_ranges_told_in_any_cuts_and_repeats_hold_what_was_said_last_of_each_offset(seed: int) -> None:
    drawn = random.Random(seed)
    story, said = Story(), dict[int, int]()
    journal = MemoryJournal(W)
    for _ in range(drawn.randint(1, 12)):
        start = drawn.randint(0, 30)
        end = start + drawn.randint(1, 12)
        held = {at: drawn.choice([0, W]) for at in range(start, end) if drawn.random() < 0.6}
        said = {at: window for at, window in said.items() if not start <= at < end} | held
        windows = {
            window: RangeWindow(held=tuple(Stretch(at, 1, 5) for at in sorted(held) if held[at] == window)) for window in (0, W)
        }
        story.journal = journal
        story.tell_range("mirror", start, end, windows)
    for books in (story.books, journal.load()):
        found = {
            row[0]: window
            for window, book in books.book(TOPIC).windows.items()
            for entry in book.found.get("mirror", {}).values()
            for row in entry.held
        }
        assert found == said


def test_a_range_told_again_is_redelivered_and_one_told_otherwise_is_replaced() -> None:
    story = Story()
    first = {0: RangeWindow(held=(Stretch(0, 5, 7),))}
    assert story.tell_range("mirror", 0, 10, first) is Outcome.ADDED
    assert story.tell_range("mirror", 0, 10, first) is Outcome.REDELIVERED
    assert story.books.book(TOPIC).windows[0].redelivered == 5
    assert story.tell_range("mirror", 0, 10, {0: RangeWindow(held=(Stretch(0, 4, 7),))}) is Outcome.REPLACED


def test_a_range_that_would_leave_more_gaps_than_are_kept_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_log, "MOST", 3)
    story = Story()
    outcomes = [story.tell_range("mirror", at, at + 5, {}) for at in (0, 10, 20, 30, 15)]
    assert outcomes == [Outcome.ADDED] * 3 + [Outcome.NOT_TAKEN, Outcome.ADDED]


def test_a_piece_of_an_entry_never_takes_the_place_of_another_in_the_store() -> None:
    """A range from an offset where one began before, in a window that had nothing there, is a piece with the same key."""
    story, journal = Story(), MemoryJournal(W)
    story.journal = journal
    story.tell_range("mirror", 0, 12, {0: RangeWindow(held=(Stretch(8, 2, 7),))})
    story.tell_range("mirror", 0, 5, {0: RangeWindow(held=(Stretch(1, 2, 9),))})
    for books in (story.books, journal.load()):
        assert list(books.book(TOPIC).windows[0].found["mirror"][0].held) == [(1, 2, 9), (8, 2, 7)]


def test_a_range_told_again_inside_a_batch_cuts_it_neither_in_memory_nor_in_the_store() -> None:
    """Found by the search, seed 4420: the batch was cut in memory alone, so that verdicts named other records after a restart."""
    story, journal = Story(), MemoryJournal(W)
    story.journal = journal
    story.tell_range("mirror", 0, 10, {0: RangeWindow(held=(Stretch(2, 5, 7),))})
    assert story.tell_range("mirror", 3, 5, {0: RangeWindow(held=(Stretch(3, 2, 7),))}) is Outcome.REDELIVERED
    for books in (story.books, journal.load()):
        assert list(books.book(TOPIC).windows[0].found["mirror"][0].held) == [(2, 5, 7)]


def test_skipped_offsets_are_replaced_with_their_range_and_joined() -> None:
    log = TierLog(0, 0)
    log.cover(0, 10, [Skipped(0, 10, "expired")])
    log.cover(10, 20, [Skipped(10, 20, "expired")])
    assert log.skipped == [Skipped(0, 20, "expired")]
    log.cover(5, 8, [])
    assert log.skipped == [Skipped(0, 5, "expired"), Skipped(8, 20, "expired")]
    assert TierLog.from_words(log.words()) == log


def test_an_entry_of_which_a_recount_leaves_nothing_is_gone_also_from_the_store() -> None:
    """Found by the search, seed 997: the books in memory said 0 where those read back said null."""
    story, journal = Story(), MemoryJournal(W)
    read = PartitionRead(topic=TOPIC, partition=0, from_offset=0, to_offset=9, windows={0: [Stretch(0, 3, 7)]})
    story.books.take_read("offline", read, 1, journal)
    story.books.forget("offline", TOPIC, {0: 0}, 2, journal)
    assert story.books.book(TOPIC).windows[0].found["offline"] == {}
    assert journal.load().book(TOPIC).windows == {}
    assert story.books.position(LogKey("offline", TOPIC, 0)) == 0


def test_a_topic_that_was_evicted_is_loaded_when_it_is_asked_for() -> None:
    journal = MemoryJournal(W)
    books = TierReports(W, journal.load_topic)
    read = PartitionRead(topic=TOPIC, partition=0, from_offset=0, to_offset=9, windows={0: [LiveBatch(0, 3, 7)]})
    books.take_read("live", read, 1, journal)
    books.evict(TOPIC)
    assert TOPIC not in books.topics
    assert list(books.book(TOPIC).windows[0].found["live"][0].held) == [(0, 3, 7, -1, -1, -1)]


def test_what_was_stored_with_a_part_for_refused_batches_is_read_without_it() -> None:
    """Stores and checkpoints written before that part went have it, empty."""
    told = {SentKey(3, 7, 1): Sent()}
    told[SentKey(3, 7, 1)].acknowledged.add([(0, 2, 99)])
    told[SentKey(3, 7, 1)].renumbered.add([(5, 2, 97, 8, 0, 0)])
    lengths, rows = pack_sent(told).split(b":", 1)[1].split(b";", 1)[1].split(b";", 1)
    acknowledged, uncertain, renumbered = lengths.split(b",")
    old = b",".join([acknowledged, uncertain, b"0", renumbered]) + b";" + rows
    (read,) = unpack_sent(b"3,7,1:%d;" % len(old) + old).values()
    assert [list(part) for part in read.parts] == [[(0, 2, 99)], [], [(5, 2, 97, 8, 0, 0)]]
