"""What the books keep of runs and of ranges in parts is bounded, and repeats and any order end in the same place."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model.messages import ProducerReport, RangeReport, RangeWindow
from headrace.audit.model.runs import MOST_GAPS, Run, RunKey
from headrace.audit.model.tier_reports import LogKey, TierReports

from ..world import NoJournal

W = 600_000


def report(
    sequence: int, *, closed: bool = False, past_ms: int | None = None, restates_from: int | None = None
) -> ProducerReport:
    return ProducerReport(
        instance="app",
        epoch=1,
        sequence=sequence,
        at_ms=0,
        state="closed" if closed else "open",
        producer_ids=(7,),
        topics=("clicks",),
        moved_past_ms=past_ms,
        restates_from=restates_from,
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
    assert run_of(report(0), report(5), report(9), report(10, restates_from=8)).gaps == [(8, 9)]
    assert run_of(report(0), report(5), report(9), report(10, restates_from=10)).gaps == []


def test_stretches_of_lost_reports_are_bounded_and_never_forgotten() -> None:
    run = run_of(*(report(at) for at in range(0, 10 * MOST_GAPS, 2)))
    assert len(run.gaps) == MOST_GAPS
    assert run.gaps[0][0] == 1
    assert run.gaps[-1] == (10 * MOST_GAPS - 3, 10 * MOST_GAPS - 2)


def test_a_window_is_sealed_when_the_run_first_moved_past_it() -> None:
    run = run_of(report(0, past_ms=W), report(1, past_ms=W), report(2, past_ms=3 * W), report(3, closed=True))
    assert [run.sealed_ms(end) for end in (W, 2 * W, 3 * W, 4 * W)] == [1, 3, 3, 4]
    assert run_of(report(0)).sealed_ms(W) is None


def part(number: int, of: int, *, from_offset: int = 0) -> RangeReport:
    return RangeReport(
        tier="mirror",
        instance="m",
        at_ms=0,
        topic="clicks",
        partition=0,
        from_offset=from_offset,
        to_offset=from_offset + 10,
        windows={number * W: RangeWindow(count=1)},
        part=number,
        parts=of,
    )


def test_parts_may_come_in_any_order_and_twice() -> None:
    books = TierReports(W)
    outcomes = [books.take_range(part(number, 3), 1, NoJournal()) for number in (2, 0, 2)]
    assert outcomes == [None, None, None]
    assert books.take_range(part(1, 3), 1, NoJournal()) is not None
    assert books.position(LogKey("mirror", "clicks", 0)) == 10


def test_ranges_that_wait_for_parts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.audit.model.tier_reports.MOST_PENDING", 3)
    books = TierReports(W)
    for at in range(5):
        books.take_range(part(0, 2, from_offset=at * 10), 1, NoJournal())
    assert len(books._pending) == 3
    books.take_range(part(1, 2, from_offset=0), 1, NoJournal())
    assert books.position(LogKey("mirror", "clicks", 0)) is None
    books.take_range(part(1, 2, from_offset=40), 1, NoJournal())
    assert books.position(LogKey("mirror", "clicks", 0)) == 50
