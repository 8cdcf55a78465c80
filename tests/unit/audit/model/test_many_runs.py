"""A window is judged by the runs that have something to say about it, however many others there are."""

import random
from collections.abc import Sequence

import pytest

from headrace.audit.model.case import Case
from headrace.audit.model.checks.producers import check_producers, last_report_bound_ms, last_report_ms
from headrace.audit.model.facts import TopicFacts, WindowFacts
from headrace.audit.model.messages import Hold
from headrace.audit.model.run_index import MOST_BUCKETS, RunIndex
from headrace.audit.model.runs import Retired, Run, RunKey
from headrace.audit.model.tiers import PRODUCER, TierRule
from tests.support.counted_steps import steps

W = 600_000
NOW = 1_000 * W
RULE = TierRule(name=PRODUCER, before=None, deadline_ms=20_000)


def facts_of(runs: Sequence[Run], superseded: Sequence[RunKey] = ()) -> TopicFacts:
    return TopicFacts(
        topic="clicks", rules=[RULE], logs={}, runs=runs, ended=[], has_producers=True, heard_all_ms=NOW, listening_since_ms=0,
        superseded_at={key: NOW for key in superseded},
    )  # fmt: skip


def case_of(topic: TopicFacts, number: int, owners: Sequence[Run] = ()) -> Case:
    window = WindowFacts(
        window_start_ms=number * W, window_end_ms=(number + 1) * W, found={}, producers={},
        owners=dict(enumerate(owners)), known={},
    )  # fmt: skip
    return Case(topic=topic, window=window, now_ms=NOW, most_records=None)


def idle(number: int) -> Run:
    """A logger that holds the window of now and has sealed all before."""
    return Run(
        key=RunKey(f"logger-{number:05}", 1), first_heard_ms=1, heard_ms=NOW, seals=[(500 * W, 5), (1_000 * W, 9)],
        holds=(Hold(1_000 * W, 1_001 * W),), topics={"clicks"}, next_sequence=7,
    )  # fmt: skip


def judged(count: int, windows: range) -> int:
    topic = facts_of([idle(number) for number in range(count)])
    cases = [case_of(topic, number) for number in windows]
    assert topic.run_index is topic.run_index
    topic.run_index.runs_concerning(0, W)

    def judge() -> None:
        for case in cases:
            assert check_producers(case, RULE).is_settled
            assert last_report_bound_ms(case) == 9

    return steps(judge)


def test_windows_that_all_runs_have_let_go_of_cost_the_same_however_many_runs_there_are() -> None:
    assert judged(100, range(10)) == judged(200, range(10))
    assert judged(100, range(20)) == pytest.approx(2 * judged(100, range(10)), rel=0.05)


def test_a_window_that_is_held_waits_for_all_who_hold_it_at_a_cost_of_each_run_once() -> None:
    cost = []
    for count in (100, 200):
        topic = facts_of([idle(number) for number in range(count)])
        owners = list(topic.runs)
        case = case_of(topic, 1_000, owners)
        cost.append(steps(lambda case=case, count=count: len(check_producers(case, RULE).waiting) == count))  # type: ignore[misc]
        assert len(check_producers(case, RULE).waiting) == count
    assert cost[1] < 2.2 * cost[0]


def drawn_run(drawn: random.Random, number: int) -> Run:
    seals = [(at * W, at) for at in sorted(drawn.sample(range(20), drawn.randrange(4)))]
    holds = tuple(
        Hold(start := drawn.randrange(20 * W), start + drawn.choice([1, W, 3 * W, (MOST_BUCKETS + 3) * W]), drawn.randrange(2))
        for _ in range(drawn.randrange(3))
    )
    closed_ms = drawn.choice([None, None, drawn.randrange(20)])
    run = Run(
        key=RunKey(f"run-{number}", 1), first_heard_ms=1, heard_ms=drawn.choice([NOW, NOW - 10_000, NOW - 30_000, W, 15 * W]),
        seals=seals, topics={"clicks"}, is_closed=closed_ms is not None, closed_ms=closed_ms,
        holds=drawn.choice([None, holds]), unsettled=drawn.choice([(), holds]), gaps=drawn.choice([[], [], [(1, 3)]]),
        cut_off_ms=drawn.choice([None, None, drawn.randrange(20 * W)]),
        only_between_ms=drawn.choice([None, None, (5 * W, 9 * W)]),
    )  # fmt: skip
    run.retired = drawn.choice([None, None, Retired(heard_ms=3, by="an operator", reason="gone")])
    return run


@pytest.mark.parametrize("seed", range(30))
def test_the_index_leaves_out_no_run_that_has_something_to_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = random.Random(seed)
    runs = [drawn_run(drawn, number) for number in range(12)]
    superseded = [run.key for run in runs if drawn.random() < 0.2]
    owners = [run for run in runs if drawn.random() < 0.2]
    topic = facts_of(runs, superseded)
    numbers = range(-1, 22)
    found = [check_producers(case_of(topic, number, owners), RULE) for number in numbers]
    for number in numbers:
        case = case_of(topic, number, owners)
        assert last_report_ms(case) <= last_report_bound_ms(case)
    with monkeypatch.context() as patched:
        patched.setattr(RunIndex, "runs_concerning", lambda index, start, end: list(index._runs))
        assert found == [check_producers(case_of(topic, number, owners), RULE) for number in numbers]
